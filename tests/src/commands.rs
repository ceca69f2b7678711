//! The README's list of commands, made from the command table.

use std::collections::BTreeMap;
use std::fmt::Write;

use khoa_server::command::{self, Command};

/// The line that opens the generated part of the README.
pub const BEGIN: &str = "<!-- commands: written by `cargo run -p khoa-tests --bin commands` -->";
/// The line that closes it.
pub const END: &str = "<!-- /commands -->";

/// How the groups of the table are headed, in the README's order.
const GROUPS: [(&str, &str); 16] = [
    ("generic", "Keys"),
    ("string", "Strings"),
    ("bitmap", "Bits"),
    ("hash", "Hashes"),
    ("list", "Lists"),
    ("set", "Sets"),
    ("sorted-set", "Sorted sets"),
    ("stream", "Streams"),
    ("geo", "Places"),
    ("hyperloglog", "HyperLogLog"),
    ("pubsub", "Publish and subscribe"),
    ("transactions", "Transactions"),
    ("scripting", "Scripts and functions"),
    ("connection", "Connection"),
    ("server", "Server"),
    ("cluster", "Cluster"),
];

/// The list: a line that counts, then a row for each group.
pub fn list() -> String {
    let mut groups: BTreeMap<&str, Vec<&Command>> = BTreeMap::new();
    for command in command::all() {
        groups.entry(command.group).or_default().push(command);
    }
    let (commands, subcommands) = counts();
    let mut text = format!("{commands} commands and {subcommands} subcommands:\n\n");
    text.push_str("| Group | Commands |\n| --- | --- |\n");
    for (group, heading) in headed(groups.keys().copied()) {
        let mut rows = groups.remove(group).unwrap_or_default();
        rows.sort_by_key(|command| command.name);
        let names: Vec<String> = rows.into_iter().map(entry).collect();
        let _ = writeln!(text, "| {heading} | {} |", names.join(", "));
    }
    text
}

fn counts() -> (usize, usize) {
    command::all().fold((0, 0), |(commands, subcommands), command| {
        (commands + 1, subcommands + children(command).len())
    })
}

/// The names of the subcommands, but for the HELP that each has.
fn children(command: &Command) -> Vec<&'static str> {
    let names = command.subcommands.iter().map(Command::own_name);
    let mut names: Vec<_> = names.filter(|&name| name != "help").collect();
    names.sort_unstable();
    names
}

/// The known groups in the README's order, then those that it does not know.
fn headed<'a>(present: impl Iterator<Item = &'a str>) -> Vec<(&'a str, &'a str)> {
    let mut order: Vec<(usize, &str, &str)> = present
        .map(
            |group| match GROUPS.iter().position(|&(known, _)| known == group) {
                Some(at) => (at, group, GROUPS[at].1),
                None => (GROUPS.len(), group, group),
            },
        )
        .collect();
    order.sort_unstable();
    order
        .into_iter()
        .map(|(_, group, heading)| (group, heading))
        .collect()
}

/// `` `GET` ``, or `` `OBJECT` (`ENCODING`, `FREQ`) ``.
fn entry(command: &Command) -> String {
    let quoted = |name: &str| format!("`{}`", name.to_uppercase());
    let children: Vec<String> = children(command).into_iter().map(quoted).collect();
    let name = quoted(command.name);
    if children.is_empty() {
        name
    } else {
        format!("{name} ({})", children.join(", "))
    }
}

/// The README with its list made anew; `None` when it has no place for it.
pub fn renew(readme: &str) -> Option<String> {
    let (before, rest) = readme.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{}{END}{after}", list()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_between_the_marks_is_renewed() {
        let old = format!("before\n{BEGIN}\nstale\n{END}\nafter\n");
        let new = renew(&old).unwrap();
        assert!(new.starts_with(&format!("before\n{BEGIN}\n")) && !new.contains("stale"));
        assert!(new.ends_with(&format!("|\n{END}\nafter\n")));
        assert_eq!(renew(&new).as_ref(), Some(&new));
        assert_eq!(renew("no marks"), None);
    }

    #[test]
    fn every_command_is_listed_once() {
        let list = list();
        for command in command::all() {
            let name = format!("`{}`", command.name.to_uppercase());
            assert!(list.contains(&name), "{name}");
        }
        let groups: std::collections::HashSet<_> =
            command::all().map(|command| command.group).collect();
        assert_eq!(list.lines().count(), 4 + groups.len());
    }
}
