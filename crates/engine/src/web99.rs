//! `sojourn-engine web99`: the application that answers the dynamic requests of `load --preset web99`.

use std::env;
use std::io::{Read, Write, stdin, stdout};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use rustix::net::sockopt::socket_acceptconn;
use sojourn_cgi::responder::Variables;
use sojourn_web99::{Application, PostLog, Response, serve};

/// Longer forms are none of the workload's.
const BODY_BYTES_MAX: u64 = 64 * 1024;

/// Answer the dynamic requests of `load --preset web99`: pages around files, advertisements by cookies, a log of forms.
///
/// It speaks FastCGI with --listen, and where its standard input is a listening socket, as `serve --app` has it. Started as
/// a CGI script it answers one request.
#[derive(Args)]
#[command(after_help = "\
Example: sojourn serve site --app 'sojourn-engine web99 site --post-log posts' \\
    --route '{ path = \"/web99/\", app = true }' --route '{ path = \"/cgi-bin/\", cgi = \"scripts\" }'")]
pub struct Options {
    /// The directory that has file_set/, as `sojourn fileset web99` makes it.
    #[arg(value_name = "DIR")]
    root: PathBuf,
    /// Append what is posted to this file, a record for each; several processes may have the same.
    #[arg(long, value_name = "FILE")]
    post_log: Option<PathBuf>,
    /// Accept connections here: HOST:PORT, or unix:SOCKET.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
}

pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let log = options.post_log.as_deref().map(|path| PostLog::open(path).with_context(|| shown(path)));
    let application = Application::new(options.root.clone(), log.transpose()?);
    match &options.listen {
        Some(address) => {
            let listener = listening(address)?;
            eprintln!("listening on {address}");
            serve(listener, application)?;
        }
        None if env::var_os("GATEWAY_INTERFACE").is_some() => answer_script(&application)?,
        None => {
            let input = stdin().as_fd().try_clone_to_owned()?;
            if !socket_acceptconn(&input).unwrap_or(false) {
                bail!(
                    "standard input is no listening socket\nhint: name one with --listen, or start it by `sojourn serve --app`"
                );
            }
            serve(input, application)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn listening(address: &str) -> anyhow::Result<OwnedFd> {
    let listener = match address.strip_prefix("unix:") {
        Some(path) => UnixListener::bind(path).map(OwnedFd::from),
        None => TcpListener::bind(address).map(OwnedFd::from),
    };
    listener.with_context(|| format!("cannot listen on {address}"))
}

/// Answers the one request that the environment and standard input have.
fn answer_script(application: &Application) -> anyhow::Result<()> {
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let variables = Variables::of_environment(env::vars_os().map(|(name, value)| (text(name), text(value))));
    let length: u64 = variables.value("CONTENT_LENGTH").parse().unwrap_or(0);
    let mut body = Vec::new();
    stdin().take(length.min(BODY_BYTES_MAX)).read_to_end(&mut body)?;
    let Response { head, body } = application.answer(&variables, &body);
    let mut output = stdout().lock();
    output.write_all(head.as_bytes())?;
    output.write_all(&body)?;
    Ok(output.flush()?)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
