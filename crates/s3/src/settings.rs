//! What the environment and the shared files say: region, endpoint, and where credentials are.
//!
//! Variables and keys are those of the AWS SDKs and tools reference guide, so that what works for other programs works
//! here. Not supported are roles assumed from another profile and programs that print credentials; a profile that needs
//! them is refused with that reason.

use std::collections::BTreeMap;

use crate::Credentials;
use crate::credentials::CredentialsError;

/// The region that is used if none is configured.
const REGION: &str = "us-east-1";

/// The address at which ECS hands out credentials of a task's role.
const CONTAINER_HOST: &str = "http://169.254.170.2";

/// The instance metadata service.
const METADATA_HOST: &str = "http://169.254.169.254";

/// Hosts to which an authorization token for container credentials may be sent without TLS.
const CONTAINER_HOSTS: [&str; 6] =
    ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "127.0.0.1", "[::1]", "localhost"];

/// The files of profiles, merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profiles(BTreeMap<String, BTreeMap<String, String>>);

/// How the bucket is named in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// In the host for AWS itself, in the path for other endpoints and for buckets with dots, which no certificate
    /// covers.
    #[default]
    Auto,
    Path,
    Virtual,
}

impl Addressing {
    pub const ALL: &[Addressing] = &[Addressing::Auto, Addressing::Path, Addressing::Virtual];

    /// The name on the command line and in a profile (`addressing_style`).
    pub fn name(self) -> &'static str {
        match self {
            Addressing::Auto => "auto",
            Addressing::Path => "path",
            Addressing::Virtual => "virtual",
        }
    }
}

/// Where to get credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the environment: they never change.
    Environment(Credentials),
    /// In a profile of the shared files: read again, as another program may renew them.
    Profile(String),
    /// From the security token service at `endpoint`, for the token in a file.
    WebIdentity { token_file: String, role: String, session: String, endpoint: String },
    /// From a container's endpoint; the value of Authorization, or the file that has it.
    Container { url: String, authorization: Option<String>, authorization_file: Option<String> },
    /// From the instance metadata service (version 2) at `endpoint`.
    Instance { endpoint: String },
}

impl Source {
    /// For messages.
    pub fn name(&self) -> String {
        match self {
            Source::Environment(_) => "the environment".to_owned(),
            Source::Profile(name) => format!("profile {name} of the shared files"),
            Source::WebIdentity { endpoint, .. } => format!("the token service {endpoint}"),
            Source::Container { url, .. } => format!("the container's endpoint {url}"),
            Source::Instance { endpoint } => format!("the instance metadata service {endpoint}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub region: String,
    /// The URL of another endpoint than AWS.
    pub endpoint: Option<String>,
    pub addressing: Addressing,
    pub source: Source,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            region: REGION.to_owned(),
            endpoint: None,
            addressing: Addressing::Auto,
            source: Source::Instance { endpoint: METADATA_HOST.to_owned() },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("{0} is set and {1} is not")]
    Half(&'static str, &'static str),
    #[error("{0}: {1}")]
    Credentials(&'static str, CredentialsError),
    #[error("there is no profile {0} in the shared files")]
    NoProfile(String),
    #[error("profile {0} needs {1}, which is not supported")]
    Unsupported(String, &'static str),
    #[error("{0} is not an http or https URL")]
    Url(String),
    #[error("{0} is not a region")]
    Region(String),
    #[error("AWS_CONTAINER_CREDENTIALS_FULL_URI is {0}, which is neither https nor this machine's")]
    ContainerHost(String),
    #[error("no credentials are configured, and AWS_EC2_METADATA_DISABLED is set")]
    NoSource,
}

impl Profiles {
    /// Reads the texts of the configuration file and the credentials file; the latter wins.
    pub fn parse(config: &str, credentials: &str) -> Profiles {
        let mut profiles = Profiles::default();
        profiles.add(config, |section| match section.split_once(char::is_whitespace) {
            None => (section == "default").then(|| section.to_owned()),
            Some(("profile", name)) => Some(name.trim().to_owned()),
            Some(("services", name)) => Some(format!("services {}", name.trim())),
            Some(_) => None,
        });
        profiles.add(credentials, |section| Some(section.to_owned()));
        profiles
    }

    /// Nested keys, which are indented below one without a value, become `PARENT.KEY`.
    fn add(&mut self, text: &str, profile_of: impl Fn(&str) -> Option<String>) {
        let (mut profile, mut parent) = (None, String::new());
        for line in text.lines() {
            let is_nested = line.starts_with([' ', '\t']);
            let line = line.split(" #").next().unwrap_or_default().trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                profile = profile_of(section.trim());
                parent.clear();
                continue;
            }
            let (Some(profile), Some((key, value))) = (&profile, line.split_once('=')) else { continue };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim().to_owned());
            let keys = self.0.entry(profile.clone()).or_default();
            if is_nested && !parent.is_empty() {
                keys.insert(format!("{parent}.{key}"), value);
            } else if value.is_empty() {
                parent = key;
            } else {
                parent.clear();
                keys.insert(key, value);
            }
        }
    }

    fn value(&self, profile: &str, key: &str) -> Option<&str> {
        self.0.get(profile)?.get(key).map(String::as_str)
    }

    /// The static credentials of `profile`; `None` if it has none.
    ///
    /// # Errors
    /// If they are incomplete or unusable.
    pub fn credentials(&self, profile: &str) -> Result<Option<Credentials>, SettingsError> {
        let value = |key| self.value(profile, key);
        match (value("aws_access_key_id"), value("aws_secret_access_key")) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(SettingsError::Half("aws_access_key_id", "aws_secret_access_key")),
            (None, Some(_)) => Err(SettingsError::Half("aws_secret_access_key", "aws_access_key_id")),
            (Some(id), Some(secret)) => Credentials::new(id, secret, value("aws_session_token"))
                .map(Some)
                .map_err(|error| SettingsError::Credentials("aws_access_key_id", error)),
        }
    }
}

impl Settings {
    /// What `variable` (the environment) and `profiles` say.
    ///
    /// # Errors
    /// If that is incomplete, contradictory or not supported.
    pub fn of(
        variable: &dyn Fn(&str) -> Option<String>,
        profiles: &Profiles,
    ) -> Result<Settings, SettingsError> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let named = variable("AWS_PROFILE").or_else(|| variable("AWS_DEFAULT_PROFILE"));
        if let Some(name) = named.as_ref().filter(|name| !profiles.0.contains_key(*name)) {
            return Err(SettingsError::NoProfile(name.clone()));
        }
        let profile = named.unwrap_or_else(|| "default".to_owned());
        let of_profile = |key| profiles.value(&profile, key).map(str::to_owned);
        let region = variable("AWS_REGION")
            .or_else(|| variable("AWS_DEFAULT_REGION"))
            .or_else(|| of_profile("region"))
            .unwrap_or_else(|| REGION.to_owned());
        if !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
            return Err(SettingsError::Region(region));
        }
        let is_true = |text: String| text.eq_ignore_ascii_case("true");
        let ignores_urls = variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS").is_some_and(is_true);
        let endpoint_of = |service: &str| {
            let services = of_profile("services").map(|name| format!("services {name}"));
            let specific = || {
                let key = format!("{}.endpoint_url", service.to_ascii_lowercase());
                services.as_deref().and_then(|services| profiles.value(services, &key)).map(str::to_owned)
            };
            variable(&format!("AWS_ENDPOINT_URL_{service}"))
                .or_else(|| variable("AWS_ENDPOINT_URL"))
                .or_else(specific)
                .or_else(|| of_profile("endpoint_url"))
                .filter(|_| !ignores_urls)
                .map(|url| web_url(&url))
                .transpose()
        };
        let style = of_profile("s3.addressing_style");
        let addressing =
            Addressing::ALL.iter().copied().find(|addressing| Some(addressing.name()) == style.as_deref());
        let sts = endpoint_of("STS")?.unwrap_or_else(|| format!("https://sts.{region}.{}", domain(&region)));
        let source = source(&variable, profiles, &profile, &sts)?;
        let addressing = addressing.unwrap_or_default();
        Ok(Settings { endpoint: endpoint_of("S3")?, region, addressing, source })
    }
}

/// The domain of a region's services.
pub(crate) fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

/// The first source that is configured, in the order of the reference guide.
fn source(
    variable: &dyn Fn(&str) -> Option<String>,
    profiles: &Profiles,
    profile: &str,
    sts: &str,
) -> Result<Source, SettingsError> {
    match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
        (Some(id), Some(secret)) => {
            return Credentials::new(&id, &secret, variable("AWS_SESSION_TOKEN").as_deref())
                .map(Source::Environment)
                .map_err(|error| SettingsError::Credentials("AWS_ACCESS_KEY_ID", error));
        }
        (Some(_), None) => return Err(SettingsError::Half("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")),
        (None, Some(_)) => return Err(SettingsError::Half("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID")),
        (None, None) => {}
    }
    let of_profile = |key| profiles.value(profile, key).map(str::to_owned);
    let token_file =
        variable("AWS_WEB_IDENTITY_TOKEN_FILE").or_else(|| of_profile("web_identity_token_file"));
    if let Some(token_file) = token_file {
        let role = variable("AWS_ROLE_ARN").or_else(|| of_profile("role_arn"));
        return Ok(Source::WebIdentity {
            token_file,
            role: role.ok_or(SettingsError::Half("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"))?,
            session: variable("AWS_ROLE_SESSION_NAME")
                .or_else(|| of_profile("role_session_name"))
                .unwrap_or_else(|| "sojourn".to_owned()),
            endpoint: sts.to_owned(),
        });
    }
    if profiles.credentials(profile)?.is_some() {
        return Ok(Source::Profile(profile.to_owned()));
    }
    for (key, what) in [
        ("role_arn", "a role assumed from another profile"),
        ("credential_process", "a program that prints credentials"),
        ("sso_session", "single sign-on"),
        ("sso_start_url", "single sign-on"),
    ] {
        if of_profile(key).is_some() {
            return Err(SettingsError::Unsupported(profile.to_owned(), what));
        }
    }
    let relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    let full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if let Some(url) = relative.map(|path| format!("{CONTAINER_HOST}{path}")).or(full) {
        return Ok(Source::Container {
            url: container_url(&url)?,
            authorization: variable("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
            authorization_file: variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
        });
    }
    if variable("AWS_EC2_METADATA_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        return Err(SettingsError::NoSource);
    }
    let endpoint = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or_else(|| METADATA_HOST.to_owned());
    Ok(Source::Instance { endpoint: web_url(&endpoint)? })
}

/// A URL of which the scheme and authority may be sent as they are.
fn web_url(url: &str) -> Result<String, SettingsError> {
    let url = url.trim().trim_end_matches('/');
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let is_url = rest.is_some_and(|rest| {
        !rest.is_empty()
            && !rest.starts_with('/')
            && rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"@?#".contains(&byte))
    });
    is_url.then(|| url.to_owned()).ok_or_else(|| SettingsError::Url(url.to_owned()))
}

/// A token must not go over the network in the clear.
fn container_url(url: &str) -> Result<String, SettingsError> {
    let bare = url.split('?').next().unwrap_or_default();
    web_url(bare)?;
    let Some(rest) = url.strip_prefix("http://") else { return Ok(url.to_owned()) };
    let authority = rest.split('/').next().unwrap_or_default();
    let is_here = CONTAINER_HOSTS.iter().any(|host| {
        authority.strip_prefix(host).is_some_and(|port| port.is_empty() || port.starts_with(':'))
    });
    is_here.then(|| url.to_owned()).ok_or_else(|| SettingsError::ContainerHost(url.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(
        variables: &[(&str, &str)],
        config: &str,
        credentials: &str,
    ) -> Result<Settings, SettingsError> {
        let variable = |name: &str| Some(variables.iter().find(|(own, _)| *own == name)?.1.to_owned());
        Settings::of(&variable, &Profiles::parse(config, credentials))
    }

    const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "s")];

    #[test]
    fn a_service_has_its_own_endpoint_before_the_general_one() {
        let general = ("AWS_ENDPOINT_URL", "http://general:1");
        let own = ("AWS_ENDPOINT_URL_S3", "http://own:2/");
        let config = "[default]\nregion = eu-central-1\nendpoint_url = http://file:3\n\
            s3 =\n  addressing_style = path\nservices = here\n[services here]\ns3 =\n  endpoint_url = http://services:4\n";
        let endpoint = |variables: &[(&str, &str)], config| {
            settings(&[&KEYS, variables].concat(), config, "").unwrap().endpoint
        };
        assert_eq!(endpoint(&[general, own], config).as_deref(), Some("http://own:2"));
        assert_eq!(endpoint(&[general], config).as_deref(), Some("http://general:1"));
        assert_eq!(endpoint(&[], config).as_deref(), Some("http://services:4"));
        assert_eq!(
            endpoint(&[], "[default]\nendpoint_url = http://file:3").as_deref(),
            Some("http://file:3")
        );
        assert_eq!(endpoint(&[("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true"), own], config), None);
        let found = settings(&KEYS, config, "").unwrap();
        assert_eq!((&*found.region, found.addressing), ("eu-central-1", Addressing::Path));
    }

    #[test]
    fn sources_in_their_order() {
        let role = [("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"), ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")];
        let container = [("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x")];
        let file = "[default]\naws_access_key_id = F\naws_secret_access_key = f # a remark\n[other]\naws_access_key_id=O\naws_secret_access_key=o";
        let source = |variables: &[&[(&str, &str)]], credentials| {
            settings(&variables.concat(), "", credentials).unwrap().source
        };
        assert!(
            matches!(source(&[&KEYS, &role, &container], file), Source::Environment(keys) if keys.id == "A")
        );
        assert!(matches!(
            source(&[&role, &container], file),
            Source::WebIdentity { endpoint, .. } if endpoint == "https://sts.us-east-1.amazonaws.com"
        ));
        assert!(matches!(
            source(&[&role, &[("AWS_REGION", "cn-north-1")]], file),
            Source::WebIdentity { endpoint, .. } if endpoint == "https://sts.cn-north-1.amazonaws.com.cn"
        ));
        assert_eq!(source(&[&container], file), Source::Profile("default".to_owned()));
        assert_eq!(source(&[&[("AWS_PROFILE", "other")]], file), Source::Profile("other".to_owned()));
        assert!(
            matches!(source(&[&container], ""), Source::Container { url, .. } if url == "http://169.254.170.2/v2/x")
        );
        assert_eq!(source(&[], ""), Source::Instance { endpoint: METADATA_HOST.to_owned() });
        let profiles = Profiles::parse("", file);
        assert_eq!(profiles.credentials("default").unwrap().unwrap().secret, "f");
    }

    #[test]
    fn what_cannot_work_is_refused_with_its_reason() {
        for (variables, config, said) in [
            (&KEYS[..1], "", "AWS_SECRET_ACCESS_KEY is not"),
            (&[("AWS_PROFILE", "none")], "", "no profile none"),
            (&[("AWS_EC2_METADATA_DISABLED", "true")], "", "no credentials"),
            (&[("AWS_ENDPOINT_URL", "ftp://a"), KEYS[0], KEYS[1]], "", "not an http or https URL"),
            (&[("AWS_REGION", "a b"), KEYS[0], KEYS[1]], "", "not a region"),
            (&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.org/x")], "", "neither https"),
            (
                &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1.example.org/x")],
                "",
                "neither https",
            ),
            (&[], "[default]\nrole_arn = r\nsource_profile = x", "assumed from another profile"),
            (&[], "[default]\ncredential_process = /bin/x", "prints credentials"),
        ] {
            let error = settings(variables, config, "").unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
