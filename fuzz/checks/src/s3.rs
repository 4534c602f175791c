//! Texts in which credentials and settings are found: profiles, answers of services, URLs of buckets.

use sojourn_s3::{Credentials, Location, Profiles, Settings};

/// Whatever the files, the services and the environment say: what is accepted can be sent in a request.
pub fn texts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for credentials in [Credentials::of_json(bytes), Credentials::of_sts(&text)].into_iter().flatten() {
        check(&credentials);
    }
    let (config, credentials) = text.split_once("\n--\n").unwrap_or((&text, ""));
    let profiles = Profiles::parse(config, credentials);
    if let Ok(Some(credentials)) = profiles.credentials("default") {
        check(&credentials);
    }
    // A variable of the environment is a line of the text.
    let variable = |name: &str| {
        let own = |line: &str| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
        text.lines().find_map(own)
    };
    let Ok(settings) = Settings::of(&variable, &profiles) else { return };
    let location = variable("BUCKET").and_then(|url| url.parse::<Location>().ok());
    let location = location.unwrap_or(Location { bucket: "bucket".to_owned(), prefix: String::new() });
    let (url, path) = location.url(&settings, settings.addressing);
    for part in [&*url, &*path, &*settings.region] {
        assert!(part.bytes().all(|byte| byte.is_ascii_graphic()), "{part:?}");
    }
    assert!(path.starts_with('/') && path.ends_with('/'), "{path}");
}

fn check(credentials: &Credentials) {
    let parts = [Some(&credentials.id), Some(&credentials.secret), credentials.token.as_ref()];
    for part in parts.into_iter().flatten() {
        assert!(!part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic()), "{part:?}");
    }
}
