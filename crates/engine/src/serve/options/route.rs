//! A route as written in a TOML table, `[[route]]` in the configuration file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use sojourn_cgi::Application;
use sojourn_http::Status;
use sojourn_http::media::is_media_type;
use sojourn_server::handler::reverse_proxy::{Scheme, UpstreamUrl};
use sojourn_server::handler::routes::{Pattern, Redirection};

/// Statuses of redirects.
const REDIRECTIONS: [Status; 4] =
    [Status::MovedPermanently, Status::Found, Status::TemporaryRedirect, Status::PermanentRedirect];

/// Statuses of fixed responses.
const ANSWERS: [Status; 5] = [
    Status::Ok,
    Status::Forbidden,
    Status::NotFound,
    Status::InternalServerError,
    Status::ServiceUnavailable,
];

/// A route: which paths it matches, and what answers.
#[derive(Clone, Debug)]
pub struct RouteValue {
    pub pattern: Pattern,
    pub target: Target,
}

/// The answer of a route.
#[derive(Clone, Debug)]
pub enum Target {
    Files,
    /// Servers with the same content, with the FastCGI settings for those that use it; without a root, the site's.
    Upstreams(Vec<UpstreamUrl>, Arc<Application>),
    /// The application run by this server.
    App(Arc<Application>),
    /// The scripts of a directory.
    Cgi(PathBuf, Arc<Application>),
    Redirect(Redirection),
    Answer {
        status: Status,
        media_type: String,
        body: Vec<u8>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Table {
    path: String,
    files: Option<bool>,
    upstream: Option<OneOrMore>,
    app: Option<bool>,
    cgi: Option<PathBuf>,
    redirect: Option<String>,
    answer: Option<String>,
    status: Option<u16>,
    media_type: Option<String>,
    root: Option<String>,
    index: Option<String>,
    suffix: Option<String>,
    script: Option<String>,
    variable: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// Parses a table in braces, such as `{ path = "/app/", upstream = "fcgi://127.0.0.1:9000" }`.
pub fn route(text: &str) -> Result<RouteValue, String> {
    #[derive(Deserialize)]
    struct File {
        route: Table,
    }
    let table = toml::from_str::<File>(&format!("route = {text}"))
        .map_err(|error| error.message().lines().collect::<Vec<_>>().join(" "))?
        .route;
    let pattern: Pattern = table.path.parse().map_err(|error| format!("{:?}: {error}", table.path))?;
    let target = table.target(&pattern).map_err(|error| format!("route {:?}: {error}", table.path))?;
    Ok(RouteValue { pattern, target })
}

impl Table {
    fn target(&self, pattern: &Pattern) -> Result<Target, String> {
        let chosen: Vec<&str> = [
            ("files", self.files == Some(true)),
            ("upstream", self.upstream.is_some()),
            ("app", self.app == Some(true)),
            ("cgi", self.cgi.is_some()),
            ("redirect", self.redirect.is_some()),
            ("answer", self.answer.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, is_chosen)| is_chosen.then_some(name))
        .collect();
        let [chosen] = chosen[..] else {
            return Err(match chosen.len() {
                0 => "the route has no answer: add one of files = true, upstream, app = true, cgi, redirect, answer"
                    .to_owned(),
                _ => format!("a route has only one answer, not {}", chosen.join(" and ")),
            });
        };
        self.has_only_what_concerns(chosen)?;
        Ok(match chosen {
            "files" => Target::Files,
            "upstream" => self.upstreams()?,
            "app" => Target::App(self.application("index.php", "")?),
            "cgi" => Target::Cgi(self.cgi.clone().unwrap_or_default(), self.scripts(pattern)?),
            "redirect" => Target::Redirect(self.redirection()?),
            _ => self.answer()?,
        })
    }

    /// Rejects keys that belong to another kind of route.
    fn has_only_what_concerns(&self, chosen: &str) -> Result<(), String> {
        let speaks_cgi = ["upstream", "app", "cgi"];
        let own = ["redirect", "answer"];
        for (name, is_given, kinds) in [
            ("status", self.status.is_some(), &own[..]),
            ("media-type", self.media_type.is_some(), &own[1..]),
            ("root", self.root.is_some(), &speaks_cgi[..2]),
            ("script", self.script.is_some(), &speaks_cgi[..2]),
            ("index", self.index.is_some(), &speaks_cgi[..]),
            ("suffix", self.suffix.is_some(), &speaks_cgi[..]),
            ("variable", self.variable.is_some(), &speaks_cgi[..]),
        ] {
            if is_given && !kinds.contains(&chosen) {
                return Err(format!("`{name}` has no effect beside `{chosen}`"));
            }
        }
        Ok(())
    }

    fn upstreams(&self) -> Result<Target, String> {
        let texts = match self.upstream.as_ref() {
            Some(OneOrMore::One(text)) => std::slice::from_ref(text),
            Some(OneOrMore::More(texts)) => texts,
            None => &[],
        };
        let urls = texts.iter().map(|text| text.parse().map_err(|error| format!("{text}: {error}")));
        let urls = urls.collect::<Result<Vec<UpstreamUrl>, _>>()?;
        let speaks_fastcgi = urls.iter().any(|url| url.scheme == Scheme::FastCgi);
        let is_told = self.root.is_some() || self.script.is_some() || self.index.is_some();
        if urls.is_empty() {
            return Err("`upstream` is a URL or a list of URLs".to_owned());
        }
        if !speaks_fastcgi && (is_told || self.suffix.is_some() || self.variable.is_some()) {
            return Err(
                "`root`, `script`, `index`, `suffix` and `variable` are for fcgi:// upstreams".to_owned()
            );
        }
        Ok(Target::Upstreams(urls, self.application("index.php", ".php")?))
    }

    fn scripts(&self, pattern: &Pattern) -> Result<Arc<Application>, String> {
        let of_pattern = match pattern {
            Pattern::Suffix(suffix) => String::from_utf8_lossy(suffix).into_owned(),
            Pattern::Below(_) => String::new(),
            Pattern::Exact(_) => {
                return Err(
                    "the path of scripts ends in a slash, as /cgi-bin/, or is a suffix such as *.cgi"
                        .to_owned(),
                );
            }
        };
        self.application("index.cgi", &of_pattern)
    }

    fn application(&self, index: &str, suffix: &str) -> Result<Arc<Application>, String> {
        let bytes =
            |text: &Option<String>, default: &str| text.as_deref().unwrap_or(default).as_bytes().to_vec();
        if self.root.as_deref().is_some_and(|root| !root.starts_with('/')) {
            return Err("`root` is an absolute path, as the application's processes see it".to_owned());
        }
        let variables = self.variable.iter().flatten();
        for (name, value) in variables.clone() {
            let is_name =
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_name || value.contains('\0') {
                return Err(format!("{name:?} is not a variable name: use letters, digits and _ only"));
            }
        }
        Ok(Arc::new(Application {
            root: bytes(&self.root.as_ref().map(|root| root.trim_end_matches('/').to_owned()), ""),
            index: bytes(&self.index, index),
            suffix: bytes(&self.suffix, suffix),
            script: self.script.as_ref().map(|script| script.clone().into_bytes()),
            variables: variables
                .map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes()))
                .collect(),
        }))
    }

    fn redirection(&self) -> Result<Redirection, String> {
        let target = self.redirect.clone().unwrap_or_default();
        let is_target =
            target.starts_with('/') || target.starts_with("http://") || target.starts_with("https://");
        if !is_target || target.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err("`redirect` is a path or a URL, with escapes for what is not ASCII".to_owned());
        }
        Ok(Redirection { status: self.status_among(&REDIRECTIONS)?, target })
    }

    fn answer(&self) -> Result<Target, String> {
        let media_type = self.media_type.clone().unwrap_or_else(|| "text/plain".to_owned());
        if !is_media_type(&media_type) {
            return Err(format!("{media_type:?} is not a media type such as text/plain"));
        }
        let body = self.answer.clone().unwrap_or_default().into_bytes();
        Ok(Target::Answer { status: self.status_among(&ANSWERS)?, media_type, body })
    }

    /// The given status, or the first of these.
    fn status_among(&self, all: &[Status]) -> Result<Status, String> {
        let Some(code) = self.status else { return Ok(all[0]) };
        all.iter().copied().find(|status| status.code() == code).ok_or_else(|| {
            let codes: Vec<_> = all.iter().map(|status| status.code().to_string()).collect();
            format!("`status` is one of {}", codes.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        let target = |text: &str| route(text).unwrap().target;
        assert!(matches!(target("{ path = \"/\", files = true }"), Target::Files));
        let php = "{ path = \"*.php\", upstream = [\"fcgi://unix:/run/php.sock\", \"fcgi://h\"], root = \"/srv/\" }";
        let Target::Upstreams(urls, application) = target(php) else { panic!("upstreams") };
        assert_eq!(
            (urls.len(), &application.root[..], &application.suffix[..]),
            (2, &b"/srv"[..], &b".php"[..])
        );
        let Target::Cgi(directory, application) =
            target("{ path = \"*.cgi\", cgi = \"/srv\", variable = { A = \"b\" } }")
        else {
            panic!("scripts")
        };
        assert_eq!((directory.to_str(), &application.suffix[..]), (Some("/srv"), &b".cgi"[..]));
        assert_eq!(application.variables, [(b"A".to_vec(), b"b".to_vec())]);
        let Target::Redirect(redirection) = target("{ path = \"/a\", redirect = \"/b\", status = 308 }")
        else {
            panic!("a redirection")
        };
        assert_eq!(redirection.status, Status::PermanentRedirect);
        for (bad, said) in [
            ("{ path = \"a\", files = true }", "starts with a slash"),
            ("{ path = \"/a\" }", "the route has no answer"),
            ("{ path = \"/a\", files = true, answer = \"\" }", "not files and answer"),
            ("{ path = \"/a\", answer = \"\", status = 201 }", "`status` is one of 200"),
            ("{ path = \"/a\", files = true, root = \"/\" }", "`root` has no effect beside `files`"),
            ("{ path = \"/a\", upstream = \"http://h\", script = \"/x\" }", "for fcgi://"),
            ("{ path = \"/a\", upstream = \"h\" }", "write an upstream as"),
            ("{ path = \"/a\", upstream = [] }", "a list of URLs"),
            ("{ path = \"/a\", cgi = \"/srv\" }", "the path of scripts ends in a slash"),
            ("{ path = \"/a\", redirect = \"b\" }", "a path or a URL"),
            ("{ path = \"/a\", redirect = \"/\\n\" }", "a path or a URL"),
            ("{ path = \"/a\", app = true, root = \"x\" }", "absolute path"),
            ("{ path = \"/a\", app = true, variable = { \"A-B\" = \"\" } }", "not a variable name"),
            ("{ path = \"/a\", fils = true }", "unknown field `fils`"),
            ("/a", ""),
        ] {
            let error = route(bad).unwrap_err();
            assert!(error.contains(said) && !error.contains('\n'), "{bad}: {error}");
        }
    }
}
