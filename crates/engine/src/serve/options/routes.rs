//! Options for what answers besides files: routes, the application run by the server, scripts.

use std::path::PathBuf;
use std::time::Duration;

use super::route::{RouteValue, route};
use super::values::duration;

/// Routes, and the processes behind them.
#[derive(clap::Args)]
#[command(next_help_heading = "Routes and applications")]
pub struct RouteOptions {
    /// Route some paths elsewhere, such as `{ path = "/app/", upstream = "fcgi://127.0.0.1:9000" }`; in a configuration
    /// file as [[route]] tables; repeatable: the first that matches is used, and other paths are files
    #[arg(long, value_name = "TABLE", value_parser = route)]
    pub route: Vec<RouteValue>,
    /// Run this application, which answers routes with `app = true`, or everything without such routes. It is started
    /// without a shell with a listening socket as standard input (as FastCGI specifies), and restarted when it ends
    #[arg(long, value_name = "COMMAND", value_parser = command)]
    pub app: Option<Command>,
    /// Processes of the application
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub app_workers: u16,
    /// The protocol of the application on that socket
    #[arg(long, default_value = "fastcgi", value_name = "PROTOCOL", value_parser = ["fastcgi", "http"])]
    pub app_protocol: String,
    /// How long the application may take to end with the server before it is killed
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = duration)]
    pub app_stop_timeout: Duration,
    /// The socket of an application run by another process of this server
    #[arg(long, hide = true, value_name = "PATH")]
    pub app_socket: Option<PathBuf>,
    /// Concurrent CGI scripts, per route
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub cgi_processes_max: u16,
    /// Requests waiting for a CGI script; more are answered 503
    #[arg(long, default_value_t = 128, value_name = "N")]
    pub cgi_queue_max: u16,
    /// How long a script may run before it is killed with its descendants
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = duration)]
    pub cgi_timeout: Duration,
}

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command(pub Vec<String>);

/// Splits words like a shell: at spaces, unless quoted. Nothing else is special.
fn command(text: &str) -> Result<Command, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for character in text.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    match (quote, words.is_empty()) {
        (Some(open), _) => Err(format!("a {open} is not closed")),
        (_, true) => Err("a command is a program and its arguments".to_owned()),
        _ => Ok(Command(words)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands() {
        let words = |text| command(text).map(|command| command.0.join("|"));
        assert_eq!(words("python3  app.py -x"), Ok("python3|app.py|-x".to_owned()));
        assert_eq!(words("'/a b/c' \"d 'e'\" f'g'"), Ok("/a b/c|d 'e'|fg".to_owned()));
        assert_eq!(words("a ''"), Ok("a|".to_owned()));
        assert!(words("a 'b").is_err() && words(" ").is_err());
    }
}
