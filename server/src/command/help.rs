//! The HELP of every command that holds subcommands, made from the rows.

use super::{
    Call, Command, Stop,
    spec::{Arg, parse_args},
};

/// The handler of every `HELP` subcommand: a line for each subcommand and one about it.
pub fn help(call: &mut Call<'_>) -> Result<(), Stop> {
    let parent = call
        .command
        .name
        .split_once('|')
        .map_or("", |(parent, _)| parent);
    let lines = super::by_name(parent.as_bytes())
        .map(lines)
        .unwrap_or_default();
    call.reply.array(lines.len());
    for line in lines {
        call.reply.simple(&line);
    }
    Ok(())
}

fn lines(command: &Command) -> Vec<String> {
    let name = command.name.to_uppercase();
    let mut lines = vec![format!(
        "{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    )];
    for child in command
        .subcommands
        .iter()
        .filter(|child| child.own_name() != "help")
    {
        lines.push(usage(child));
        lines.push(format!("    {}", child.summary));
    }
    lines.extend(["HELP".to_owned(), "    Print this help.".to_owned()]);
    lines
}

/// The name and the arguments as they are typed.
pub fn usage(command: &Command) -> String {
    let args = parse_args(command.args).unwrap_or_default();
    let mut line = command.own_name().to_uppercase();
    for arg in &args {
        line.push(' ');
        line.push_str(&syntax(arg));
    }
    line
}

fn syntax(arg: &Arg) -> String {
    let joined = |separator| {
        arg.children
            .iter()
            .map(syntax)
            .collect::<Vec<_>>()
            .join(separator)
    };
    let value = match arg.kind.as_str() {
        "oneof" if arg.optional && arg.token.is_none() => joined(" | "),
        "oneof" => format!("<{}>", joined(" | ")),
        "block" => joined(" "),
        "pure-token" => String::new(),
        _ => format!("<{}>", arg.name),
    };
    let once = match &arg.token {
        Some(token) if value.is_empty() => token.clone(),
        Some(token) => format!("{token} {value}"),
        None => value.clone(),
    };
    let repeated = match (arg.multiple, arg.multiple_token) {
        (true, true) => format!("{once} [{once} ...]"),
        (true, false) => format!("{once} [{value} ...]"),
        _ => once,
    };
    if arg.optional {
        format!("[{repeated}]")
    } else {
        repeated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_shows_what_is_optional_and_what_repeats() {
        const ROW: Command = Command {
            name: "x|list",
            args: "key:key... [condition<NX|XX>] [LIMIT@limit(offset:integer count:integer)] \
                [GET@pattern:pattern.!.] [TYPE@kind<NORMAL|PUBSUB>]",
            ..Command::BASE
        };
        assert_eq!(
            usage(&ROW),
            "LIST <key> [<key> ...] [NX | XX] [LIMIT <offset> <count>] \
            [GET <pattern> [GET <pattern> ...]] [TYPE <NORMAL | PUBSUB>]"
        );
    }

    #[test]
    fn help_ends_with_itself() {
        const ROW: Command = Command {
            name: "x",
            subcommands: &[
                Command {
                    name: "x|help",
                    summary: "Helps.",
                    ..Command::BASE
                },
                Command {
                    name: "x|on",
                    summary: "Turns it on.",
                    args: "id:integer",
                    ..Command::BASE
                },
            ],
            ..Command::BASE
        };
        assert_eq!(
            lines(&ROW)[1..],
            [
                "ON <id>",
                "    Turns it on.",
                "HELP",
                "    Print this help."
            ]
        );
    }
}
