//! Glob patterns as KEYS, SCAN and PSUBSCRIBE take them, in time bounded by both lengths.

/// Does the whole text match the pattern? `*`, `?`, `[a-z]`, `[^a]` and `\` for a literal.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    matches_with(pattern, text, false)
}

/// As [`matches`], taking letters of both cases as equal.
pub fn matches_any_case(pattern: &[u8], text: &[u8]) -> bool {
    matches_with(pattern, text, true)
}

fn matches_with(pattern: &[u8], text: &[u8], any_case: bool) -> bool {
    // The references look at no pattern for an empty text, not even at one of stars.
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    // Where to go on when what follows the last star does not fit: one byte later. Going back to
    // an earlier star could not help, so the time is at most the product of the lengths.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some(_) => {
                let (fits, next) = match_one(&pattern[p..], text[t], any_case);
                if fits {
                    p += next;
                    t += 1;
                    continue;
                }
            }
            None => {}
        }
        let Some((after, from)) = star else {
            return false;
        };
        star = Some((after, from + 1));
        p = after;
        t = from + 1;
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// Matches one byte against the element that `pattern` begins with; tells its length too.
fn match_one(pattern: &[u8], byte: u8, any_case: bool) -> (bool, usize) {
    let fold = |byte: u8| {
        if any_case {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    };
    match pattern {
        [b'?', ..] => (true, 1),
        [b'[', class @ ..] => {
            let (fits, len) = match_class(class, fold(byte), fold);
            (fits, len + 1)
        }
        [b'\\', literal, ..] => (fold(*literal) == fold(byte), 2),
        [literal, ..] => (fold(*literal) == fold(byte), 1),
        [] => (false, 0),
    }
}

/// Matches a byte against what follows a `[`, up to and with its `]` or the end.
fn match_class(class: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match &class[at..] {
            [] => return (found != negated, at),
            [b']', ..] => return (found != negated, at + 1),
            [b'\\', literal, ..] => {
                found |= fold(*literal) == byte;
                at += 2;
            }
            [low, b'-', high, ..] => {
                let (low, high) = (fold(*low.min(high)), fold(*high.max(low)));
                found |= (low..=high).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= fold(*literal) == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_the_references_do() {
        let cases: [(&str, &str, bool); 16] = [
            ("*", "", false),
            ("", "", true),
            ("h?llo", "hello", true),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-b]llo", "hbllo", true),
            ("[z-a]", "m", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("[abc", "b", true),
            ("", "a", false),
            ("a**", "a", true),
            ("*a", "ba", true),
        ];
        for (pattern, text, expect) in cases {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expect,
                "{pattern} {text}"
            );
        }
        assert!(matches_any_case(b"HeL*", b"hello"));
    }

    #[test]
    fn a_hostile_pattern_ends_soon() {
        let pattern = b"a*".repeat(5000);
        assert!(!matches(
            &[pattern.as_slice(), b"b"].concat(),
            &[b'a'; 5000]
        ));
    }
}
