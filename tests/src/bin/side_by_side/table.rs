//! The results of a part as a table in Markdown that can also be read as it is.

use std::fmt::Write as _;

use crate::{
    program::Running,
    rounds::{Row, geometric_mean},
    workloads::Part,
};

pub fn of_part(part: Part, servers: &[Running], rows: &[Row]) -> String {
    let mut lines = vec![head(servers)];
    lines.extend(rows.iter().map(|row| line(servers, row)));
    // The time of a wait among them would make no sense of a mean.
    if rows.len() > 2 && part != Part::Growth {
        lines.push(means(servers, rows));
    }
    format!("## {}\n\n{}", part.title(), aligned(&lines))
}

fn head(servers: &[Running]) -> Vec<String> {
    let mut cells = vec![String::new()];
    for server in servers {
        cells.push(server.name.clone());
        if server.is_reference() {
            cells.push("khoa to it".to_owned());
        }
    }
    cells
}

fn line(servers: &[Running], row: &Row) -> Vec<String> {
    let mut cells = vec![row.name.clone()];
    for (place, server) in servers.iter().enumerate() {
        cells.push(cost(row, place));
        if server.is_reference() {
            let ratio = row.ratio(place);
            cells.push(ratio.map_or_else(String::new, |ratio| format!("×{ratio}")));
        }
    }
    cells
}

fn cost(row: &Row, place: usize) -> String {
    let Some(cost) = row.cost(place) else {
        return String::new();
    };
    let rate = row.rate(place).map(|rate| format!(", {}/s", short(rate)));
    format!("{}{}", digits(cost.median), rate.unwrap_or_default())
}

fn means(servers: &[Running], rows: &[Row]) -> Vec<String> {
    let mut cells = vec!["geometric mean".to_owned()];
    for (place, server) in servers.iter().enumerate() {
        cells.push(String::new());
        if server.is_reference() {
            let ratios = rows.iter().filter_map(|row| row.ratio(place));
            let ratios: Vec<f64> = ratios.map(|ratio| ratio.median).collect();
            cells.push(format!("×{:.2}", geometric_mean(&ratios)));
        }
    }
    cells
}

fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(&widths) {
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
        if number == 0 {
            for width in &widths {
                let _ = write!(text, "| {:-<width$} ", "");
            }
            text.push_str("|\n");
        }
    }
    text
}

/// Three digits, and more before the point.
fn digits(number: f64) -> String {
    match number.abs() {
        100.0.. => format!("{number:.0}"),
        10.0.. => format!("{number:.1}"),
        1.0.. => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    }
}

fn short(rate: f64) -> String {
    match rate {
        1e6.. => format!("{:.1}M", rate / 1e6),
        1e4.. => format!("{:.0}k", rate / 1e3),
        _ => format!("{rate:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines = [["", "khoa"], ["GET", "×1"]].map(|line| line.map(str::to_owned).to_vec());
        let expected = "|     | khoa |\n| --- | ---- |\n| GET | ×1   |\n";
        assert_eq!(aligned(&lines), expected);
    }

    #[test]
    fn numbers_keep_three_digits() {
        assert_eq!(
            [0.0051, 0.5, 7.126, 12.34, 123_456.7].map(digits),
            ["0.005", "0.500", "7.13", "12.3", "123457"]
        );
        assert_eq!(
            [900.0, 123_456.0, 1_250_000.0].map(short),
            ["900", "123k", "1.2M"]
        );
    }
}
