//! Help in two levels: `--help` shows the options that matter most, `--help-all` every one. Both come from the option
//! table.

use std::fmt::Write;

use clap::{Arg, ArgAction, Command};

use crate::table::{CommandRow, Kind, OptionRow};

/// The column of the options' descriptions.
const COLUMN: usize = 26;
/// Longer lines are hard to read.
const WIDTH_MAX: usize = 100;
const WIDTH_DEFAULT: usize = 80;
pub const ALL: &str = "--help-all";

/// Replaces the parser's help options by `--help` and `--help-all`.
pub fn in_two_storeys(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|each| each.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |each| {
            each.disable_help_flag(true)
                .arg(
                    Arg::new("help")
                        .short('h')
                        .long("help")
                        .action(ArgAction::HelpShort)
                        .help("Show the options that matter most"),
                )
                .arg(
                    Arg::new("help-all")
                        .long("help-all")
                        .action(ArgAction::HelpLong)
                        .help("Show every option"),
                )
        })
    })
}

/// The help of a command, as printed by `program`.
pub fn of(command: &CommandRow, program: &str, everything: bool) -> String {
    let width = width();
    let mut text = String::new();
    let about = if everything { &command.description } else { &command.summary };
    paragraphs(&mut text, about, width);
    // Loads of requests and of streams are one command for users.
    let name = if command.name == "load-streams" { "load" } else { &command.name };
    let _ = writeln!(text, "\nUsage: {program} {name} {}", command.usage);
    if !command.arguments.is_empty() {
        text.push_str("\nArguments:\n");
        command.arguments.iter().for_each(|row| option(&mut text, row, width, everything));
    }
    let shown = command.options.iter().filter(|row| everything || row.essential);
    let mut groups: Vec<(&str, Vec<&OptionRow>)> = Vec::new();
    for row in shown {
        match groups.iter_mut().find(|(group, _)| *group == row.group) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((&row.group, vec![row])),
        }
    }
    for (group, rows) in groups {
        let _ = writeln!(text, "\n{group}:");
        rows.into_iter().for_each(|row| option(&mut text, row, width, everything));
    }
    let below = if everything { &command.details } else { &command.example };
    if !below.is_empty() {
        text.push('\n');
        paragraphs(&mut text, below, width);
    }
    let hidden = command.options.iter().filter(|row| !row.essential).count();
    if !everything && hidden > 0 {
        let _ = writeln!(text, "\n{hidden} more options: {program} {name} {ALL}");
    }
    text
}

fn option(text: &mut String, row: &OptionRow, width: usize, everything: bool) {
    let value = row.value.as_deref().unwrap_or_default();
    let mut left = match (row.kind, row.short) {
        _ if row.name == value => format!("  {value}"),
        (_, Some(short)) => format!("  -{short}, --{}", row.name),
        (_, None) => format!("  --{}", row.name),
    };
    if row.name != value && !matches!(row.kind, Kind::Flag | Kind::Boolean) {
        // Choices are listed in the description.
        let value = if value.contains('|') { "WORD" } else { value };
        let _ = write!(left, " {value}");
    }
    let mut right = row.help.trim_end_matches('.').to_owned();
    let explained = everything && row.choices.iter().any(|choice| choice.help.is_some());
    if row.kind == Kind::Choice && !explained {
        let names: Vec<_> = row.choices.iter().map(|choice| choice.name.as_str()).collect();
        let _ = write!(right, ": {}", names.join(", "));
    }
    if let Some(default) = &row.default {
        let _ = write!(right, " [default: {default}]");
    }
    row_of(text, &left, &right, width);
    if explained {
        for choice in &row.choices {
            row_of(text, &format!("    {}", choice.name), choice.help.as_deref().unwrap_or_default(), width);
        }
    }
}

fn row_of(text: &mut String, left: &str, right: &str, width: usize) {
    let mut lines = wrapped(right, width.saturating_sub(COLUMN)).into_iter();
    if left.chars().count() + 2 > COLUMN {
        let _ = writeln!(text, "{left}");
    } else {
        let _ = writeln!(text, "{left:COLUMN$}{}", lines.next().unwrap_or_default());
    }
    for line in lines {
        let _ = writeln!(text, "{:COLUMN$}{line}", "");
    }
}

/// Wraps text; indented lines stay as they are.
fn paragraphs(text: &mut String, prose: &str, width: usize) {
    for line in prose.trim_end().lines() {
        if line.starts_with(' ') || line.is_empty() {
            let _ = writeln!(text, "{line}");
        } else {
            for line in wrapped(line, width) {
                let _ = writeln!(text, "{line}");
            }
        }
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one from the start");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// The width of the terminal, or the value of `COLUMNS`.
fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let here = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    said.or_else(here).filter(|&columns| columns >= 40).unwrap_or(WIDTH_DEFAULT).min(WIDTH_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::all_commands;

    #[test]
    fn help_fits_the_width_but_for_examples() {
        for row in CommandRow::all(&all_commands()) {
            let text = of(&row, "sojourn", true);
            let is_example = |line: &str| line.contains("sojourn ") || line.starts_with("      --");
            let long: Vec<_> =
                text.lines().filter(|line| line.chars().count() > WIDTH_MAX && !is_example(line)).collect();
            assert!(long.is_empty(), "{}: {long:?}", row.name);
        }
    }

    #[test]
    fn the_short_help_says_how_to_see_the_rest() {
        for row in CommandRow::all(&all_commands()) {
            let (short, all) = (of(&row, "sojourn", false), of(&row, "sojourn", true));
            assert_eq!(short.contains("more options"), row.options.iter().any(|option| !option.essential));
            assert!(row.options.iter().all(|option| all.contains(&format!("--{}", option.name))));
        }
    }
}
