//! Requests by their variables, and their responses in the words of CGI.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use sojourn_cgi::responder::Variables;
use sojourn_workload::web99::advertisements::Shown;
use sojourn_workload::web99::page::{Setting, around, shown_cookie, visitor_cookie};
use sojourn_workload::web99::requests::{DynamicRequest, FileName};

use crate::PostLog;

/// The longest file of the set is shorter.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One site's application.
#[derive(Debug)]
pub struct Application {
    /// The directory that has `file_set`.
    root: PathBuf,
    /// Without one, forms are refused.
    log: Option<PostLog>,
}

/// A head in the words of CGI, and a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub head: String,
    pub body: Vec<u8>,
}

impl Application {
    pub fn new(root: PathBuf, log: Option<PostLog>) -> Application {
        Application { root, log }
    }

    /// Answers a request; errors are responses, too.
    pub fn answer(&self, variables: &Variables, body: &[u8]) -> Response {
        let query = variables.value("QUERY_STRING");
        let form = String::from_utf8_lossy(body);
        let asked = DynamicRequest::parse(
            variables.value("REQUEST_METHOD"),
            query,
            variables.value("HTTP_COOKIE"),
            &form,
        );
        let outcome = match asked {
            None => return failure("400 Bad Request", "not a request of this workload"),
            Some(DynamicRequest::Log) => self.log().and_then(PostLog::records).map(Response::of_text),
            Some(DynamicRequest::NewLog) => {
                self.log().and_then(PostLog::reset).map(|()| Response::of_text("an empty log\n".into()))
            }
            Some(DynamicRequest::Page(file)) => self.page(variables, file, None, None),
            Some(DynamicRequest::CustomAdvertisement(file, visitor)) => {
                let shown = Shown::to(visitor);
                self.page(variables, file, Some(shown), Some(shown_cookie(shown)))
            }
            Some(DynamicRequest::Post { file, client, visitor }) => self
                .log()
                .and_then(|log| log.append(file, client, visitor))
                .and_then(|()| self.page(variables, file, None, Some(visitor_cookie(visitor)))),
        };
        outcome.unwrap_or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => failure("404 Not Found", "no such file in the set"),
            _ => {
                eprintln!("web99: {error}");
                failure("500 Internal Server Error", "see the application's standard error")
            }
        })
    }

    fn log(&self) -> io::Result<&PostLog> {
        let missing = || io::Error::other("no log for forms: choose a file with --post-log");
        self.log.as_ref().ok_or_else(missing)
    }

    fn page(
        &self,
        variables: &Variables,
        name: FileName,
        shown: Option<Shown>,
        cookie: Option<String>,
    ) -> io::Result<Response> {
        let setting = Setting {
            software: variables.value("SERVER_SOFTWARE"),
            client: variables.value("REMOTE_ADDR"),
            script: variables.value("SCRIPT_NAME"),
            query: variables.value("QUERY_STRING"),
        };
        let (before, behind) = around(&setting, name, shown);
        let file = File::open(self.root.join(name.to_string().trim_start_matches('/')))?;
        let length = file.metadata()?.len();
        if length > FILE_BYTES_MAX {
            return Err(io::Error::other(format!("{name} has {length} bytes, more than any of the set")));
        }
        let mut body = Vec::with_capacity(before.len() + length as usize + behind.len());
        body.extend_from_slice(before.as_bytes());
        file.take(FILE_BYTES_MAX).read_to_end(&mut body)?;
        body.extend_from_slice(behind.as_bytes());
        let cookie = cookie.map_or_else(String::new, |cookie| format!("Set-Cookie: {cookie}\r\n"));
        Ok(Response::of("text/html", &cookie, body))
    }
}

impl Response {
    fn of(media_type: &str, fields: &str, body: Vec<u8>) -> Response {
        let length = body.len();
        let head = format!("Content-Type: {media_type}\r\n{fields}Content-Length: {length}\r\n\r\n");
        Response { head, body }
    }

    fn of_text(text: Vec<u8>) -> Response {
        Response::of("text/plain", "", text)
    }
}

fn failure(status: &str, text: &str) -> Response {
    Response::of("text/plain", &format!("Status: {status}\r\n"), format!("{text}\n").into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn answer(application: &Application, pairs: &[(&str, &str)], body: &str) -> (String, String) {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let response = application.answer(&Variables::of_environment(pairs), body.as_bytes());
        assert!(response.head.contains(&format!("Content-Length: {}\r\n", response.body.len())));
        (response.head, String::from_utf8(response.body).unwrap())
    }

    #[test]
    fn pages_advertisements_and_forms() {
        let site = tempfile::tempdir().unwrap();
        fs::create_dir_all(site.path().join("file_set/dir00001")).unwrap();
        fs::write(site.path().join("file_set/dir00001/class0_2"), "the content").unwrap();
        let log = PostLog::open(&site.path().join("posts")).unwrap();
        let application = Application::new(site.path().to_owned(), Some(log));
        let get = [("REQUEST_METHOD", "GET"), ("QUERY_STRING", "/file_set/dir00001/class0_2")];
        let (head, body) = answer(&application, &get, "");
        assert!(head.starts_with("Content-Type: text/html\r\n") && !head.contains("Set-Cookie"));
        assert!(body.contains("<pre>\nthe content\n</pre>") && !body.contains("<img"));
        let visitor = ("HTTP_COOKIE", "visitor=user=10001&last=005");
        let (head, body) = answer(&application, &[&get[..], &[visitor]].concat(), "");
        assert!(head.contains("Set-Cookie: shown=ad=") && body.contains("<img"), "{head}");
        let post = [("REQUEST_METHOD", "POST"), visitor];
        let form = "urlroot=/file_set&dir=1&class=0&num=2&client=7";
        for _ in 0..2 {
            let (head, body) = answer(&application, &post, form);
            assert!(head.contains("Set-Cookie: visitor=user=10001&last=005\r\n"));
            assert!(body.contains("the content"));
        }
        let fetch = [("REQUEST_METHOD", "GET"), ("QUERY_STRING", "command/Fetch")];
        let numbers = |text: &str| {
            let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
            text.lines().filter_map(first).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&answer(&application, &fetch, "").1), ["1", "2"]);
        answer(&application, &[("REQUEST_METHOD", "GET"), ("QUERY_STRING", "command/Reset")], "");
        assert_eq!(answer(&application, &fetch, "").1, "");
        let none = [("REQUEST_METHOD", "GET"), ("QUERY_STRING", "/file_set/dir00002/class0_2")];
        assert!(answer(&application, &none, "").0.starts_with("Content-Type: text/plain\r\nStatus: 404"));
        let bad = [("REQUEST_METHOD", "GET"), ("QUERY_STRING", "/etc/passwd")];
        assert!(answer(&application, &bad, "").0.contains("Status: 400"));
        let unlogged = Application::new(site.path().to_owned(), None);
        assert!(answer(&unlogged, &post, form).0.contains("Status: 500"));
    }
}
