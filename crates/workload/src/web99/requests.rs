//! The kinds of requests, their shares, and what a dynamic one says: which file, which visitor, what is posted.

use std::fmt;

use super::{CLASSES, FILES};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Static,
    /// A page around a file, by an application that stays.
    Dynamic,
    /// The same, by a process of its own.
    Cgi,
    /// A page with an advertisement for the visitor, whom a cookie names.
    CustomAdvertisement,
    /// A form, which is written to a log.
    Post,
}

impl Kind {
    /// All kinds with their shares: 70 % static; of the rest 16 % POST, 42 % with advertisements, 0.5 % CGI.
    pub const SHARES: [(Kind, f64); 5] = [
        (Kind::Static, 0.70),
        (Kind::Dynamic, 0.30 * 0.415),
        (Kind::Cgi, 0.30 * 0.005),
        (Kind::CustomAdvertisement, 0.30 * 0.42),
        (Kind::Post, 0.30 * 0.16),
    ];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Static => "static GET",
            Kind::Dynamic => "dynamic GET",
            Kind::Cgi => "CGI GET",
            Kind::CustomAdvertisement => "custom-ad GET",
            Kind::Post => "POST",
        }
    }
}

/// The path of the application that stays.
pub const APPLICATION_PATH: &str = "/web99/page";
/// The path of the one that is a process for each request.
pub const CGI_PATH: &str = "/cgi-bin/web99";
/// The cookie that names the visitor.
pub const VISITOR_COOKIE: &str = "visitor";
/// The cookie that tells which advertisement was shown.
pub const SHOWN_COOKIE: &str = "shown";

/// A file of the set, by what its path says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileName {
    pub directory: u32,
    pub class: u32,
    pub file: u32,
}

impl FileName {
    /// Reads a path as [`super::File`] has it: nothing else is a file of the set.
    pub fn parse(path: &str) -> Option<FileName> {
        let rest = path.strip_prefix("/file_set/dir")?;
        let (directory, rest) = rest.split_once("/class")?;
        let (class, file) = rest.split_once('_')?;
        let name = FileName { directory: number(directory)?, class: number(class)?, file: number(file)? };
        let is_in_set = (name.class as usize) < CLASSES && (name.file as usize) < FILES;
        (is_in_set && name.to_string() == path).then_some(name)
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileName { directory, class, file } = self;
        write!(out, "/file_set/dir{directory:05}/class{class}_{file}")
    }
}

/// A visitor of the site, as its cookie says: `user=10012&last=003`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visitor {
    pub user: u32,
    /// The advertisement that it saw last.
    pub last: u32,
}

impl Visitor {
    fn parse(cookies: &str) -> Option<Visitor> {
        let value =
            cookies.split("; ").find_map(|cookie| cookie.strip_prefix(VISITOR_COOKIE)?.strip_prefix('='))?;
        let (user, last) = value.strip_prefix("user=")?.split_once("&last=")?;
        Some(Visitor { user: number(user)?, last: number(last)? })
    }
}

/// A dynamic request of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DynamicRequest {
    Page(FileName),
    CustomAdvertisement(FileName, Visitor),
    Post {
        file: FileName,
        client: u32,
        visitor: Visitor,
    },
    /// The log, from its beginning.
    Log,
    /// An empty log.
    NewLog,
}

impl DynamicRequest {
    /// Reads a request; `None` if it makes no sense.
    pub fn parse(method: &str, query: &str, cookies: &str, body: &str) -> Option<DynamicRequest> {
        match (method, query) {
            ("GET", "command/Fetch") => return Some(DynamicRequest::Log),
            ("GET" | "POST", "command/Reset") => return Some(DynamicRequest::NewLog),
            ("GET", path) => {
                let file = FileName::parse(path)?;
                if cookies.is_empty() {
                    return Some(DynamicRequest::Page(file));
                }
                return Some(DynamicRequest::CustomAdvertisement(file, Visitor::parse(cookies)?));
            }
            ("POST", "") => {}
            _ => return None,
        }
        let field = |name: &str| {
            body.split('&').find_map(|field| field.strip_prefix(name)?.strip_prefix('=')).and_then(number)
        };
        let file = FileName { directory: field("dir")?, class: field("class")?, file: field("num")? };
        let file = FileName::parse(&file.to_string())?;
        Some(DynamicRequest::Post { file, client: field("client")?, visitor: Visitor::parse(cookies)? })
    }
}

fn number(digits: &str) -> Option<u32> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_descriptions() {
        let percent: Vec<f64> = Kind::SHARES.iter().map(|(_, share)| (share * 1e6).round() / 1e4).collect();
        assert_eq!(percent, [70.0, 12.45, 0.15, 12.6, 4.8]);
    }

    #[test]
    fn files_of_the_set() {
        for file in super::super::files(3) {
            assert_eq!(FileName::parse(&file.path).map(|name| name.to_string()), Some(file.path));
        }
        for other in [
            "",
            "/file_set/dir00001/class4_0",
            "/file_set/dir00001/class0_9",
            "/file_set/dir1/class0_1",
            "/file_set/dir00001/class0_1/..",
            "/file_set/dir00001/../class0_1",
            "/file_set/dir+0001/class0_1",
            "file_set/dir00001/class0_1",
            "/file_set/dir99999999999/class0_1",
        ] {
            assert_eq!(FileName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_asked() {
        let file = FileName { directory: 12, class: 1, file: 3 };
        let visitor = Visitor { user: 10_012, last: 359 };
        let path = "/file_set/dir00012/class1_3";
        let cookie = "a=b; visitor=user=10012&last=359";
        assert_eq!(DynamicRequest::parse("GET", path, "", ""), Some(DynamicRequest::Page(file)));
        assert_eq!(
            DynamicRequest::parse("GET", path, cookie, ""),
            Some(DynamicRequest::CustomAdvertisement(file, visitor))
        );
        let body = "urlroot=/file_set&dir=00012&class=1&num=3&client=0000017";
        let posted = DynamicRequest::Post { file, client: 17, visitor };
        assert_eq!(DynamicRequest::parse("POST", "", cookie, body), Some(posted));
        assert_eq!(DynamicRequest::parse("GET", "command/Fetch", "", ""), Some(DynamicRequest::Log));
        assert_eq!(DynamicRequest::parse("POST", "command/Reset", "", ""), Some(DynamicRequest::NewLog));
        for (method, query, cookies, body) in [
            ("GET", "", "", ""),
            ("GET", path, "visitor=", ""),
            ("GET", path, "visitor=user=-1&last=2", ""),
            ("POST", "", "", body),
            ("POST", "", cookie, "dir=1&class=7&num=3&client=1"),
            ("POST", path, cookie, body),
            ("PUT", path, "", ""),
        ] {
            assert_eq!(
                DynamicRequest::parse(method, query, cookies, body),
                None,
                "{method} {query} {cookies} {body}"
            );
        }
    }
}
