//! The ratios as bars in an SVG file, beside the line at 1: a bar to the left of it costs less.

use std::fmt::Write as _;

use crate::{
    machine::Machine,
    program::Running,
    rounds::{Row, Spread},
    workloads::Part,
};

const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 16.0;
/// Where the panels begin, below the title, the legend and the machine.
const TOP: f64 = 92.0;
const COLUMN: f64 = (WIDTH - 3.0 * MARGIN) / 2.0;
/// The ratio at the right end; a longer bar is cut, and its number says how long it is.
const END: f64 = 1.5;
const BAR: f64 = 5.0;
const GAP: f64 = 6.0;
const HEADING: f64 = 34.0;

/// A white or a dark sheet, as the reader's system has it.
const STYLE: &str = "\
text{font:11px system-ui,sans-serif;fill:#24292f}\
.title{font-size:17px;font-weight:600}.part{font-weight:600}.note{fill:#59636e}\
.sheet{fill:#fff}.one{stroke:#24292f}.grid{stroke:#d1d9e0}.spread{stroke:#24292f;opacity:.6}\
.s0{fill:#2f7ed8}.s1{fill:#d9822b}.s2{fill:#3a9d6e}.s3{fill:#8e6bbf}\
@media(prefers-color-scheme:dark){\
text{fill:#e6edf3}.note{fill:#9198a1}\
.sheet{fill:#0d1117}.one{stroke:#e6edf3}.grid{stroke:#30363d}.spread{stroke:#e6edf3}\
.s0{fill:#5ba0ec}.s1{fill:#e8a05c}.s2{fill:#5fc492}.s3{fill:#b195de}}";
const COLOURS: usize = 4;

pub fn draw(servers: &[Running], rows: &[Row], machine: &Machine, rounds: usize) -> String {
    let references: Vec<(usize, &str)> = servers
        .iter()
        .enumerate()
        .filter(|(_, server)| server.is_reference())
        .map(|(place, server)| (place, server.name.as_str()))
        .collect();
    let places: Vec<usize> = references.iter().map(|(place, _)| *place).collect();
    let panels = panels(rows, &places);
    let mut sheet = Sheet::new(&panels);
    sheet.head(&servers[0].name, &references, machine, rounds);
    let height = sheet.columns(&panels);
    sheet.finish(height)
}

/// Bars under one heading.
struct Panel {
    title: String,
    groups: Vec<Group>,
}

/// The bars of one workload, one for each reference.
struct Group {
    label: String,
    ratios: Vec<Option<Spread>>,
}

/// A panel for each part, and one for each pipeline of the commands.
fn panels(rows: &[Row], places: &[usize]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for row in rows {
        let (title, label) = match (row.part, row.name.rsplit_once(" -P ")) {
            (Part::Commands, Some((name, pipeline))) => {
                (format!("CPU per operation, -P {pipeline}"), name.to_owned())
            }
            _ => (short_title(row.part).to_owned(), row.name.clone()),
        };
        if panels.last().is_none_or(|panel| panel.title != title) {
            let groups = Vec::new();
            panels.push(Panel { title, groups });
        }
        let ratios = places.iter().map(|place| row.ratio(*place)).collect();
        if let Some(panel) = panels.last_mut() {
            panel.groups.push(Group { label, ratios });
        }
    }
    panels
}

fn short_title(part: Part) -> &'static str {
    match part {
        Part::Commands => "CPU per operation",
        Part::Lock => "CPU per lock taken and given back",
        Part::Scripts => "CPU of scripts",
        Part::Pubsub => "CPU per message received, 50 subscribers",
        Part::Contention => "50 tasks, one lock, per turn",
        Part::Memory => "Memory per key or element",
        Part::Starts => "Time to start",
        Part::Families => "CPU per operation, other commands, -P 16",
        Part::Growth => "CPU per operation by number of keys, -P 16",
    }
}

/// The drawing so far.
struct Sheet {
    drawn: String,
    /// How wide the longest label is; what it leaves of a column is for the bars.
    labels: f64,
}

impl Sheet {
    fn new(panels: &[Panel]) -> Sheet {
        const LETTER: f64 = 6.2;
        let groups = panels.iter().flat_map(|panel| &panel.groups);
        let longest = groups.map(|group| group.label.chars().count()).max();
        Sheet {
            drawn: String::new(),
            labels: (longest.unwrap_or(0) as f64 * LETTER).clamp(80.0, 0.7 * COLUMN),
        }
    }

    /// How far from the left end of the bars a ratio lies.
    fn place(&self, ratio: f64) -> f64 {
        ratio.clamp(0.0, END) / END * (COLUMN - self.labels)
    }

    fn text(&mut self, class: &str, x: f64, y: f64, anchor: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            self.drawn,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
        );
    }

    fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        let _ = writeln!(
            self.drawn,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"/>"#
        );
    }

    fn line(&mut self, class: &str, x: (f64, f64), y: (f64, f64)) {
        let _ = writeln!(
            self.drawn,
            r#"<line class="{class}" x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}"/>"#,
            x.0, y.0, x.1, y.1
        );
    }

    fn head(&mut self, own: &str, references: &[(usize, &str)], machine: &Machine, rounds: usize) {
        let title = format!("What {own} costs, as a share of what the references cost");
        self.text("title", MARGIN, 28.0, "start", &title);
        let note = format!(
            "Left of the line at 1 khoa-server costs less. Medians of {rounds} alternating rounds; the thin lines reach from the least to the most."
        );
        self.text("note", MARGIN, 47.0, "start", &note);
        self.text("note", MARGIN, 62.0, "start", &machine.to_string());
        let mut x = MARGIN;
        for (colour, (_, name)) in references.iter().enumerate() {
            self.rect(&colour_class(colour), x, 72.0, 10.0, 10.0);
            self.text("", x + 15.0, 81.0, "start", name);
            x += 120.0;
        }
    }

    /// Puts each panel below the shorter of two columns, and returns where the longer one ends.
    fn columns(&mut self, panels: &[Panel]) -> f64 {
        let mut ends = [TOP; 2];
        for panel in panels {
            let column = usize::from(ends[1] < ends[0]);
            let x = MARGIN + column as f64 * (COLUMN + MARGIN);
            ends[column] = self.panel(panel, x, ends[column]);
        }
        ends[0].max(ends[1])
    }

    fn panel(&mut self, panel: &Panel, left: f64, top: f64) -> f64 {
        let zero = left + self.labels;
        let first = top + HEADING;
        let heights = panel.groups.iter().map(Group::height);
        let bottom = first + heights.sum::<f64>();
        self.text("part", left, top + 16.0, "start", &panel.title);
        for quarter in 0..=6 {
            let x = zero + self.place(f64::from(quarter) / 4.0);
            let class = if quarter == 4 { "one" } else { "grid" };
            self.line(class, (x, x), (first - 4.0, bottom));
            if quarter % 2 == 0 {
                let label = format!("{}", f64::from(quarter) / 4.0);
                self.text("note", x, first - 7.0, "middle", &label);
            }
        }
        let mut y = first;
        for group in &panel.groups {
            self.group(group, left, y);
            y += group.height();
        }
        bottom + 10.0
    }

    fn group(&mut self, group: &Group, left: f64, top: f64) {
        let zero = left + self.labels;
        let middle = top + group.height() / 2.0;
        self.text("", zero - 6.0, middle + 3.0, "end", &group.label);
        let mut y = top + GAP / 2.0;
        for (colour, ratio) in group.ratios.iter().enumerate() {
            if let Some(ratio) = ratio {
                self.rect(
                    &colour_class(colour),
                    zero,
                    y,
                    self.place(ratio.median),
                    BAR,
                );
                let ends = (
                    zero + self.place(ratio.least),
                    zero + self.place(ratio.most),
                );
                self.line("spread", ends, (y + BAR / 2.0, y + BAR / 2.0));
                if ratio.median > END {
                    let label = format!("{:.1}", ratio.median);
                    self.text("", left + COLUMN - 3.0, y + BAR + 2.0, "end", &label);
                }
            }
            y += BAR;
        }
    }

    fn finish(self, height: f64) -> String {
        let height = height + MARGIN;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
             width=\"{WIDTH}\" height=\"{height:.0}\">\n<style>{STYLE}</style>\n\
             <rect class=\"sheet\" width=\"100%\" height=\"100%\"/>\n{}</svg>\n",
            self.drawn
        )
    }
}

impl Group {
    fn height(&self) -> f64 {
        // A single bar leaves the label its room.
        (self.ratios.len() as f64 * BAR + GAP).max(14.0)
    }
}

fn colour_class(number: usize) -> String {
    format!("s{}", number % COLOURS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Sample;

    #[test]
    fn commands_have_a_panel_for_each_pipeline() {
        let row = |part, name: &str, own, other| {
            let results = [own, other].map(|cost| vec![Sample::of_time(cost)]);
            Row::new(part, name.to_owned(), results.to_vec())
        };
        let rows = [
            row(Part::Commands, "GET -P 1", 1.0, 2.0),
            row(Part::Commands, "SET -P 1", 1.0, 4.0),
            row(Part::Commands, "GET -P 16", 1.0, 5.0),
            row(Part::Lock, "lock cycle -P 16", 2.0, 1.0),
        ];
        let panels = panels(&rows, &[1]);
        let shape = panels.iter().map(|panel| {
            let bars = panel.groups.iter().map(|group| {
                let median = group.ratios[0].map_or(f64::NAN, |ratio| ratio.median);
                (group.label.as_str(), median)
            });
            bars.collect::<Vec<_>>()
        });
        assert_eq!(
            shape.collect::<Vec<_>>(),
            [
                vec![("GET", 0.5), ("SET", 0.25)],
                vec![("GET", 0.2)],
                vec![("lock cycle -P 16", 2.0)],
            ]
        );
    }

    #[test]
    fn a_bar_ends_at_the_edge() {
        let sheet = Sheet::new(&[]);
        assert_eq!(sheet.place(3.0), COLUMN - sheet.labels);
        assert_eq!(sheet.place(0.75), sheet.place(1.5) / 2.0);
    }

    #[test]
    fn names_are_written_as_text() {
        let mut sheet = Sheet::new(&[]);
        sheet.text("", 0.0, 0.0, "start", "a<b & c");
        assert!(sheet.drawn.contains(">a&lt;b &amp; c</text>"));
    }
}
