//! Credentials, and the texts in which services hand them out: JSON of containers and of the instance metadata service,
//! XML of the security token service.

use std::fmt;

use serde::Deserialize;
use sojourn_http::HttpDate;

use crate::xml;

/// The longest part of a credential. Session tokens have no published limit; those seen have less than 2 KB.
const PART_BYTES_MAX: usize = 8192;

/// An access key with its secret, and until when they are valid.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub id: String,
    pub secret: String,
    /// Temporary credentials have one.
    pub token: Option<String>,
    /// `None` if they do not expire.
    pub expires: Option<HttpDate>,
}

/// Secrets do not get into logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Why a text holds no credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    #[error("the answer is not what a credentials service sends")]
    Malformed,
    #[error(
        "an access key, secret or session token is empty, too long, or has characters that no field may have"
    )]
    Unusable,
    #[error("{code}: {message}")]
    Refused { code: String, message: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    code: Option<String>,
    message: Option<String>,
    access_key_id: Option<String>,
    secret_access_key: Option<String>,
    token: Option<String>,
    expiration: Option<String>,
}

impl Credentials {
    /// # Errors
    /// If a part cannot be sent in a field.
    pub fn new(id: &str, secret: &str, token: Option<&str>) -> Result<Credentials, CredentialsError> {
        let part = |text: &str| {
            let text = text.trim();
            let is_usable = !text.is_empty()
                && text.len() <= PART_BYTES_MAX
                && text.bytes().all(|byte| byte.is_ascii_graphic());
            is_usable.then(|| text.to_owned()).ok_or(CredentialsError::Unusable)
        };
        let token = token.filter(|token| !token.trim().is_empty()).map(part).transpose()?;
        Ok(Credentials { id: part(id)?, secret: part(secret)?, token, expires: None })
    }

    /// Reads the answer of a container's endpoint or of the instance metadata service.
    ///
    /// # Errors
    /// If it is something else, or a refusal.
    pub fn of_json(text: &[u8]) -> Result<Credentials, CredentialsError> {
        let answer: Answer = serde_json::from_slice(text).map_err(|_| CredentialsError::Malformed)?;
        if let Some(code) = answer.code.filter(|code| code != "Success") {
            return Err(CredentialsError::Refused { code, message: answer.message.unwrap_or_default() });
        }
        let (Some(id), Some(secret)) = (answer.access_key_id, answer.secret_access_key) else {
            return Err(CredentialsError::Malformed);
        };
        let credentials = Credentials::new(&id, &secret, answer.token.as_deref())?;
        credentials.until(answer.expiration.as_deref())
    }

    /// Reads the answer of the security token service to AssumeRoleWithWebIdentity.
    ///
    /// # Errors
    /// If it is something else, or a refusal.
    pub fn of_sts(text: &str) -> Result<Credentials, CredentialsError> {
        if let Some(code) = xml::text_of(text, "Code") {
            return Err(CredentialsError::Refused {
                code,
                message: xml::text_of(text, "Message").unwrap_or_default(),
            });
        }
        let part = |name| xml::text_of(text, name).ok_or(CredentialsError::Malformed);
        let token = part("SessionToken")?;
        let credentials = Credentials::new(&part("AccessKeyId")?, &part("SecretAccessKey")?, Some(&token))?;
        credentials.until(xml::text_of(text, "Expiration").as_deref())
    }

    fn until(self, expiration: Option<&str>) -> Result<Credentials, CredentialsError> {
        let expires = expiration.map(|text| instant(text).ok_or(CredentialsError::Malformed)).transpose()?;
        Ok(Credentials { expires, ..self })
    }
}

/// A time such as `2026-11-25T12:00:00Z`; a fraction of the second is dropped.
fn instant(text: &str) -> Option<HttpDate> {
    const DAYS_BEFORE_MONTH: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let text = text.strip_suffix('Z')?;
    let (day, time) = text.split_once('T')?;
    let numbers = |text: &str, separator| -> Option<[i64; 3]> {
        let parts: Vec<i64> = text.split(separator).map(|part| part.parse().ok()).collect::<Option<_>>()?;
        parts.try_into().ok()
    };
    let [year, month, day] = numbers(day, '-')?;
    let [hour, minute, second] = numbers(time.split('.').next()?, ':')?;
    let is_date = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    if !is_date || !is_time {
        return None;
    }
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let before = year - 1;
    let days = 365 * (year - 1970) + (before / 4 - before / 100 + before / 400)
        - (1969 / 4 - 1969 / 100 + 1969 / 400)
        + DAYS_BEFORE_MONTH[month as usize - 1]
        + i64::from(is_leap && month > 2)
        + day
        - 1;
    Some(HttpDate::from_seconds(((days * 24 + hour) * 60 + minute) * 60 + second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2013-05-24T00:00:00Z", 1_369_353_600),
            ("2024-02-29T23:59:59Z", 1_709_251_199),
            ("2024-03-01T00:00:00.123Z", 1_709_251_200),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
        ] {
            let date = instant(text).unwrap();
            assert_eq!(date.seconds(), seconds, "{text}");
        }
        for bad in ["", "2024-02-29", "2024-13-01T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T00:00:00"] {
            assert_eq!(instant(bad), None, "{bad}");
        }
    }

    #[test]
    fn answers_of_services() {
        let json = br#"{"Code":"Success","AccessKeyId":"A","SecretAccessKey":"s","Token":"t","Expiration":"2024-03-01T00:00:00Z"}"#;
        let credentials = Credentials::of_json(json).unwrap();
        assert_eq!((&*credentials.id, credentials.token.as_deref()), ("A", Some("t")));
        assert_eq!(credentials.expires.map(HttpDate::seconds), Some(1_709_251_200));
        assert!(!format!("{credentials:?}").contains("\"s\""), "a secret is not printed");
        let sts = "<AssumeRoleWithWebIdentityResponse><Credentials><AccessKeyId>A</AccessKeyId>\
            <SecretAccessKey>s&amp;</SecretAccessKey><SessionToken>t</SessionToken>\
            <Expiration>2024-03-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResponse>";
        let credentials = Credentials::of_sts(sts).unwrap();
        assert_eq!((&*credentials.secret, credentials.token.as_deref()), ("s&", Some("t")));
        let refused = "<ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>no</Message></Error></ErrorResponse>";
        assert_eq!(Credentials::of_sts(refused).unwrap_err().to_string(), "InvalidIdentityToken: no");
        let failed = br#"{"Code":"AssumeRoleUnauthorizedAccess","Message":"m"}"#;
        assert_eq!(Credentials::of_json(failed).unwrap_err().to_string(), "AssumeRoleUnauthorizedAccess: m");
        assert_eq!(Credentials::of_json(b"<html>"), Err(CredentialsError::Malformed));
        assert_eq!(Credentials::new("a\r\nb", "s", None), Err(CredentialsError::Unusable));
    }
}
