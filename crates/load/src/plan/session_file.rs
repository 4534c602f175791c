//! Session files of httperf (`--wsesslog`), unchanged.
//!
//! A line is a request: `URI [method=M] [think=SECONDS] [contents='...']`. A line that starts with a blank belongs to
//! the burst before it, any other starts a burst; an empty line ends the session, and `#` in the first column starts a
//! comment. A burst's first request is sent alone; after its response the others are sent together. `think=` applies to
//! the burst (the last one wins), after its last response. `size=BYTES` is our extension: the size that the body must
//! have.

use sojourn_measure::Nanos;
use thiserror::Error;

/// The most sessions in a file, the same as httperf's.
pub const SESSIONS_MAX: usize = 1000;
pub const REQUESTS_MAX: usize = 1_000_000;
const THINK_SECONDS_MAX: f64 = 86_400.0;
/// httperf accepts any prefix of a method's name; the first match counts.
const METHODS: [&str; 10] =
    ["OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT", "PATCH", "PROPFIND"];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub uri: String,
    pub method: String,
    /// The request's body.
    pub contents: Vec<u8>,
    /// The expected size of the response's body, if given.
    pub size_bytes: Option<u64>,
}

/// Requests of which the first is sent alone and the others together.
#[derive(Clone, Debug, PartialEq)]
pub struct Burst<R> {
    pub requests: Vec<R>,
    /// The think time after the last response, if given.
    pub think: Option<Nanos>,
}

/// A session: one or more bursts in sequence.
pub type Session<R> = Vec<Burst<R>>;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SessionFileError {
    /// An invalid line.
    #[error("line {line}: {what}")]
    Line { line: usize, what: String },
    #[error("more than {SESSIONS_MAX} sessions or {REQUESTS_MAX} requests")]
    TooMany,
    #[error("the file contains no sessions")]
    Empty,
}

pub fn parse(text: &str) -> Result<Vec<Session<Request>>, SessionFileError> {
    let mut sessions: Vec<Session<Request>> = Vec::new();
    let (mut session, mut requests) = (Session::new(), 0);
    for (line, text) in logical_lines(text) {
        if text.starts_with('#') {
            continue;
        }
        if text.trim().is_empty() {
            if !session.is_empty() {
                sessions.push(std::mem::take(&mut session));
            }
            continue;
        }
        let (request, think) = request(&text).map_err(|what| SessionFileError::Line { line, what })?;
        let begins_burst = !text.starts_with([' ', '\t']);
        if begins_burst || session.is_empty() {
            session.push(Burst { requests: Vec::new(), think: None });
        }
        if let Some(burst) = session.last_mut() {
            burst.requests.push(request);
            burst.think = think.or(burst.think);
        }
        requests += 1;
        if requests > REQUESTS_MAX || sessions.len() >= SESSIONS_MAX {
            return Err(SessionFileError::TooMany);
        }
    }
    if !session.is_empty() {
        sessions.push(session);
    }
    if sessions.is_empty() { Err(SessionFileError::Empty) } else { Ok(sessions) }
}

/// Lines with their numbers; a backslash at the end of a line continues it.
fn logical_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut lines = text.lines().enumerate();
    std::iter::from_fn(move || {
        let (index, first) = lines.next()?;
        let mut whole = first.to_owned();
        while whole.ends_with('\\') {
            whole.pop();
            whole.push_str(lines.next().map_or("", |(_, next)| next));
        }
        Some((index + 1, whole))
    })
}

fn request(line: &str) -> Result<(Request, Option<Nanos>), String> {
    let mut rest = line.trim();
    let uri = word(&mut rest).to_owned();
    if !uri.starts_with('/') || !uri.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("{uri:?} is not a path that begins with a slash"));
    }
    let mut request = Request { uri, method: "GET".into(), contents: Vec::new(), size_bytes: None };
    let mut think = None;
    while !rest.is_empty() {
        let Some((name, value)) = rest.split_once('=').filter(|(name, _)| !name.contains([' ', '\t'])) else {
            return Err(format!("{:?} is not of the form name=value", word(&mut rest)));
        };
        rest = value;
        match name {
            "contents" => request.contents = contents(&mut rest)?,
            "method" => request.method = method(word(&mut rest))?,
            "think" => think = Some(seconds(word(&mut rest))?),
            "size" => {
                let size = word(&mut rest);
                request.size_bytes =
                    Some(size.parse().map_err(|_| format!("{size:?} is not a size in bytes"))?);
            }
            _ => return Err(format!("{name:?} is not method, think, contents or size")),
        }
        rest = rest.trim_start();
    }
    Ok((request, think))
}

/// Removes the next word and the blanks after it.
fn word<'a>(rest: &mut &'a str) -> &'a str {
    let (word, behind) = rest.split_at(rest.find([' ', '\t']).unwrap_or(rest.len()));
    *rest = behind.trim_start();
    word
}

fn method(prefix: &str) -> Result<String, String> {
    let named = METHODS.iter().find(|method| !prefix.is_empty() && method.starts_with(prefix));
    named.map(|&method| method.to_owned()).ok_or_else(|| format!("{prefix:?} is not a known method"))
}

fn seconds(number: &str) -> Result<Nanos, String> {
    let seconds = number.parse::<f64>().ok().filter(|seconds| (0.0..=THINK_SECONDS_MAX).contains(seconds));
    seconds.map(Nanos::from_seconds).ok_or_else(|| format!("{number:?} is not a think time in seconds"))
}

/// Removes a quoted text or a word; a backslash escapes a quote or starts a control character.
fn contents(rest: &mut &str) -> Result<Vec<u8>, String> {
    let quote = rest.chars().next().filter(|first| matches!(first, '\'' | '"'));
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(usize::from(quote.is_some()));
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => text.push(match characters.next() {
                Some((_, 'n')) => '\n',
                Some((_, 'r')) => '\r',
                Some((_, 't')) => '\t',
                Some((_, other)) => other,
                None => return Err("a backslash at the end".into()),
            }),
            _ if Some(character) == quote => {
                *rest = &rest[at + 1..];
                return Ok(text.into_bytes());
            }
            ' ' | '\t' if quote.is_none() => {
                *rest = &rest[at..];
                return Ok(text.into_bytes());
            }
            _ => text.push(character),
        }
    }
    *rest = "";
    if quote.is_none() { Ok(text.into_bytes()) } else { Err("contents= has no closing quote".into()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn get(uri: &str) -> Request {
        Request { uri: uri.into(), method: "GET".into(), contents: Vec::new(), size_bytes: None }
    }

    #[test]
    fn bursts_thinks_and_sessions() {
        let file =
            "# a comment\n/index.html think=2.0\n\t/a.gif\n /b.gif think=3\n/next\n\n \n\n/other size=7\n";
        let sessions = parse(file).unwrap();
        let first = Burst {
            requests: vec![get("/index.html"), get("/a.gif"), get("/b.gif")],
            think: Some(Nanos(3_000_000_000)),
        };
        let next = Burst { requests: vec![get("/next")], think: None };
        assert_eq!(sessions[0], [first, next]);
        assert_eq!(sessions[1][0].requests[0].size_bytes, Some(7));
        assert_eq!(sessions.len(), 2, "several empty lines make no empty session");
    }

    #[test]
    fn methods_and_contents() {
        let file = "/p method=POST contents='Post data' think=1\n/q method=PO contents=\"a\\\"b\\n\"\n\
                    /r contents=word size=3\n/s method=HEAD \\\n  think=0.5\n";
        let bursts = &parse(file).unwrap()[0];
        let contents: Vec<_> =
            bursts.iter().map(|burst| String::from_utf8_lossy(&burst.requests[0].contents)).collect();
        assert_eq!(contents, ["Post data", "a\"b\n", "word", ""]);
        let methods: Vec<_> = bursts.iter().map(|burst| burst.requests[0].method.as_str()).collect();
        assert_eq!(methods, ["POST", "POST", "GET", "HEAD"]);
        assert_eq!(bursts[3].think, Some(Nanos(500_000_000)));
    }

    #[test]
    fn refusals_name_the_line() {
        let long = "/a method=BREW";
        for bad in ["a", "/a b", "/a x=1", "/a think=x", "/a think=-1", "/a contents='x", long, "/a size=x"] {
            match parse(&format!("/ok\n{bad}\n")) {
                Err(SessionFileError::Line { line, .. }) => assert_eq!(line, 2, "{bad}"),
                other => panic!("{bad}: {other:?}"),
            }
        }
        assert_eq!(parse("# nothing\n\n"), Err(SessionFileError::Empty));
        assert_eq!(parse(&"/a\n\n".repeat(SESSIONS_MAX + 1)), Err(SessionFileError::TooMany));
    }

    proptest! {
        #[test]
        fn never_panics(text in "[ -~\t\n\\\\'\"=/#é]{0,200}") {
            let _ = parse(&text);
        }
    }
}
