//! The configuration file: `name value` lines with comments, quotes and includes.

use std::{fs, path::Path};

use crate::resp::split_words;

/// How deep files may include each other.
const NESTING_MAX: usize = 16;

/// A line that sets something, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub file: String,
    pub number: usize,
    pub name: String,
    pub values: Vec<String>,
}

/// Reads a file and the files that it includes.
pub fn read(path: &str) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    read_into(&mut lines, path, 0)?;
    Ok(lines)
}

/// Reads settings from a text; `file` is how errors call it.
pub fn parse(file: &str, text: &str) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    parse_into(&mut lines, file, text, 0)?;
    Ok(lines)
}

fn read_into(lines: &mut Vec<Line>, path: &str, depth: usize) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    parse_into(lines, path, &text, depth)
}

fn parse_into(lines: &mut Vec<Line>, file: &str, text: &str, depth: usize) -> Result<(), String> {
    for (index, text) in text.lines().enumerate() {
        let number = index + 1;
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let mut words =
            words(text).ok_or_else(|| format!("{file}:{number}: a quote is left open"))?;
        if words.is_empty() {
            continue;
        }
        let name = words.remove(0).to_ascii_lowercase();
        if name != "include" {
            lines.push(Line {
                file: file.to_owned(),
                number,
                name,
                values: words,
            });
            continue;
        }
        if depth == NESTING_MAX {
            return Err(format!(
                "{file}:{number}: too many files include each other"
            ));
        }
        for included in words {
            let path = Path::new(file)
                .parent()
                .unwrap_or(Path::new(""))
                .join(&included);
            read_into(lines, &path.to_string_lossy(), depth + 1)?;
        }
    }
    Ok(())
}

fn words(line: &str) -> Option<Vec<String>> {
    let words = split_words(line.as_bytes())?;
    let words = words.into_iter();
    Some(
        words
            .map(|word| String::from_utf8_lossy(&word).into_owned())
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_name_and_its_values() {
        let text = "# first\n\n  Port 7000\nsave \"\"\nsave 60 1\r\nrequirepass 'a b'\n";
        let lines = parse("f", text).unwrap();
        let found: Vec<(usize, &str, String)> = lines
            .iter()
            .map(|line| (line.number, line.name.as_str(), line.values.join("|")))
            .collect();
        let expected = [
            (3, "port", "7000"),
            (4, "save", ""),
            (5, "save", "60|1"),
            (6, "requirepass", "a b"),
        ];
        assert_eq!(
            found,
            expected.map(|(at, name, values)| (at, name, values.to_owned()))
        );
    }

    #[test]
    fn an_open_quote_is_told_with_its_line() {
        let error = parse("my.conf", "port 1\nrequirepass \"a").unwrap_err();
        assert_eq!(error, "my.conf:2: a quote is left open");
    }
}
