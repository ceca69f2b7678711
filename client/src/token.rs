//! The random value that tells one acquisition from every other, drawn from the operating system.

use std::fmt;

use crate::error::Error;

/// Length of a token as it is written into a key: 128 bits in lower-case hexadecimal.
pub(crate) const TOKEN_LEN: usize = 32;

/// Names one acquisition of one lock: 128 bits from the operating system's generator.
///
/// A holder proves with it that a key is still its own, so it must not be guessable and must
/// never repeat; a process id, a clock or a user-chosen text would be neither.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(Box<str>);

impl Token {
    pub(crate) fn random() -> Result<Self, Error> {
        let mut bytes = [0_u8; TOKEN_LEN / 2];
        getrandom::fill(&mut bytes).map_err(|_| Error::Entropy)?;
        Ok(Self(hex(&bytes)))
    }

    /// The token as it stands in the key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Eight digits tell tokens apart in a log without handing the key to its readers.
        write!(f, "Token({}…)", &self.0[..8])
    }
}

fn hex(bytes: &[u8]) -> Box<str> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text.into_boxed_str()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn tokens_are_32_hexadecimal_digits_and_never_repeat() {
        let tokens: HashSet<String> = (0..1000)
            .map(|_| Token::random().unwrap().to_string())
            .collect();
        assert_eq!(tokens.len(), 1000);
        assert!(tokens.iter().all(|t| t.len() == TOKEN_LEN));
        assert!(
            tokens
                .iter()
                .all(|t| t.bytes().all(|b| b.is_ascii_hexdigit()))
        );
    }

    #[test]
    fn debug_output_does_not_reveal_the_whole_token() {
        let token = Token::random().unwrap();
        assert!(!format!("{token:?}").contains(token.as_str()));
    }
}
