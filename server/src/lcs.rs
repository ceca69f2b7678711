//! The longest common subsequence of two strings, with where its runs lie in both.

use crate::error::Error;

/// A run of bytes that both strings share, by where it starts and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    pub one: usize,
    pub other: usize,
    pub len: usize,
}

/// A longest common subsequence, as runs from the end of the strings to the beginning.
pub struct Found {
    runs: Vec<Match>,
}

impl Found {
    /// The length of the subsequence, in bytes.
    pub fn len(&self) -> usize {
        self.runs.iter().map(|run| run.len).sum()
    }

    /// The runs, last first.
    pub fn matches(&self) -> &[Match] {
        &self.runs
    }

    /// The subsequence, taken from the first string.
    pub fn text(&self, one: &[u8]) -> Vec<u8> {
        self.runs
            .iter()
            .rev()
            .flat_map(|run| &one[run.one..run.one + run.len])
            .copied()
            .collect()
    }
}

/// Finds a longest common subsequence. The work and the memory grow with the product of the
/// lengths; more than `memory_max` bytes are refused.
pub fn find(one: &[u8], other: &[u8], memory_max: usize) -> Result<Found, Error> {
    const TOO_LARGE: Error =
        Error::text("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
    let width = other.len() + 1;
    let cells = width
        .checked_mul(one.len() + 1)
        .filter(|cells| *cells <= memory_max / 4);
    let mut table = vec![0u32; cells.ok_or(TOO_LARGE)?];
    for i in 1..=one.len() {
        for j in 1..width {
            table[i * width + j] = if one[i - 1] == other[j - 1] {
                table[(i - 1) * width + j - 1] + 1
            } else {
                table[(i - 1) * width + j].max(table[i * width + j - 1])
            };
        }
    }
    Ok(Found {
        runs: walk_back(one, other, &table),
    })
}

fn walk_back(one: &[u8], other: &[u8], table: &[u32]) -> Vec<Match> {
    let width = other.len() + 1;
    let mut runs: Vec<Match> = Vec::new();
    let (mut i, mut j) = (one.len(), other.len());
    while i > 0 && j > 0 {
        if one[i - 1] == other[j - 1] {
            i -= 1;
            j -= 1;
            match runs.last_mut() {
                Some(run) if run.one == i + 1 && run.other == j + 1 => {
                    *run = Match {
                        one: i,
                        other: j,
                        len: run.len + 1,
                    };
                }
                _ => runs.push(Match {
                    one: i,
                    other: j,
                    len: 1,
                }),
            }
        } else if table[(i - 1) * width + j] > table[i * width + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subsequence_is_in_both_and_as_long_as_any() {
        let found = find(b"ohmytext", b"mynewtext", 1 << 20).unwrap();
        assert_eq!(found.text(b"ohmytext"), b"mytext");
        assert_eq!(
            found.matches()[0],
            Match {
                one: 4,
                other: 5,
                len: 4
            }
        );
        assert!(find(b"", b"abc", 1 << 20).unwrap().matches().is_empty());
    }

    #[test]
    fn strings_too_long_for_the_table_are_refused() {
        assert!(find(&[0; 1000], &[0; 1000], 4000).is_err());
    }
}
