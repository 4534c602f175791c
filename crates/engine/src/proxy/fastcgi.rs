//! The options for applications that speak FastCGI.

use std::sync::Arc;

use sojourn_cgi::Application;

/// The variables that applications behind fcgi:// get.
#[derive(clap::Args)]
#[command(next_help_heading = "FastCGI")]
pub struct FastCgiOptions {
    /// The document root in the application's file system, with which SCRIPT_FILENAME begins
    #[arg(long, value_name = "DIR", value_parser = directory)]
    pub fastcgi_root: Option<String>,
    /// The script for a path that ends in a slash
    #[arg(long, default_value = "index.php", value_name = "NAME")]
    pub fastcgi_index: String,
    /// The suffix of scripts' names; the rest of a path is PATH_INFO
    #[arg(long, default_value = ".php", value_name = "SUFFIX")]
    pub fastcgi_suffix: String,
    /// A single script for all requests, as in frameworks; the whole path is PATH_INFO
    #[arg(long, value_name = "FILE")]
    pub fastcgi_script: Option<String>,
    /// Set a variable, replacing a computed one; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub fastcgi_variable: Vec<(String, String)>,
}

impl FastCgiOptions {
    /// True if the options say where scripts are.
    pub fn has_scripts(&self) -> bool {
        self.fastcgi_root.is_some() || self.fastcgi_script.is_some()
    }

    pub fn application(&self) -> Arc<Application> {
        let bytes = |text: &String| text.clone().into_bytes();
        Arc::new(Application {
            root: self.fastcgi_root.as_ref().map(bytes).unwrap_or_default(),
            index: bytes(&self.fastcgi_index),
            suffix: bytes(&self.fastcgi_suffix),
            script: self.fastcgi_script.as_ref().map(bytes),
            variables: self
                .fastcgi_variable
                .iter()
                .map(|(name, value)| (bytes(name), bytes(value)))
                .collect(),
        })
    }
}

/// A directory without a trailing slash.
fn directory(text: &str) -> Result<String, String> {
    if !text.starts_with('/') {
        return Err("a document root is an absolute path, as /srv/www".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write a variable as NAME=VALUE")?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        return Err(format!("{name}: a variable's name has letters, digits and _ only"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert_eq!(directory("/srv/www/"), Ok("/srv/www".to_owned()));
        assert!(directory("www").is_err());
        assert_eq!(variable("A_1=b=c"), Ok(("A_1".to_owned(), "b=c".to_owned())));
        for bad in ["A", "=b", "A-B=c", "A B=c"] {
            assert!(variable(bad).is_err(), "{bad}");
        }
    }
}
