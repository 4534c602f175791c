//! Authentication: challenges, credentials, and what an attacker does not learn.

use super::{Answer, Client, serving_users};
use crate::{Counter, Settings, Users};
use sojourn_media::rtsp::digest::{Algorithm, parameter};

fn users() -> Option<Users> {
    let line = |user: &str, algorithm: Algorithm| {
        format!("{user}:films:{}\n", algorithm.secret(user, "films", "secret"))
    };
    let lines = [line("ann", Algorithm::Md5), line("ann", Algorithm::Sha256), line("bob", Algorithm::Md5)];
    Some(Users::parse(&lines.concat()).unwrap())
}

/// A client with a user name and password.
struct User<'c> {
    client: &'c mut Client,
    name: &'static str,
    password: &'static str,
    algorithm: Algorithm,
    nonce: String,
}

impl User<'_> {
    /// The Authorization field of a request, with request counting if `count` is given.
    fn authorization(&self, method: &str, path: &str, count: Option<u32>) -> String {
        let (algorithm, nonce, uri) = (self.algorithm, &self.nonce, self.client.url(path));
        let secret = algorithm.secret(self.name, "films", self.password);
        let count = count.map(|count| format!("{count:08x}"));
        let counted = count.as_deref().map(|count| (count, "0a"));
        let proof = algorithm.response(&secret, nonce, counted, method, &uri);
        let counted =
            counted.map_or(String::new(), |(nc, own)| format!(", qop=auth, nc={nc}, cnonce=\"{own}\""));
        let (name, algorithm) = (self.name, algorithm.name());
        format!(
            "Authorization: Digest username=\"{name}\", realm=\"films\", nonce=\"{nonce}\", uri=\"{uri}\", \
             response=\"{proof}\", algorithm={algorithm}{counted}\r\n"
        )
    }

    fn ask(&mut self, method: &str, path: &str, fields: &str, count: Option<u32>) -> Answer {
        let authorization = self.authorization(method, path, count);
        self.client.ask(method, path, &format!("{authorization}{fields}"))
    }
}

fn nonce(answer: &Answer) -> String {
    parameter(answer.fields["www-authenticate"].split_once(' ').unwrap().1, "nonce").unwrap()
}

fn is_stale(answer: &Answer) -> bool {
    answer.status == 401 && answer.fields["www-authenticate"].contains("stale=true")
}

#[test]
fn users_play_and_others_do_not() {
    let (counts, log) = serving_users(users(), Settings::default(), |address| {
        let mut client = Client::connect(address);
        assert_eq!(client.ask("OPTIONS", "/film.mp4", "").status, 200);
        for method in ["DESCRIBE", "SETUP", "PLAY", "TEARDOWN", "GET_PARAMETER"] {
            assert_eq!(client.ask(method, "/nothing.mp4", "").status, 401, "{method}");
        }
        assert_eq!(client.ask("OPTIONS", "/film.mp4", "Session: 0000000000000000\r\n").status, 401);
        let nonce = nonce(&client.ask("DESCRIBE", "/film.mp4", ""));
        let (name, password, algorithm) = ("ann", "secret", Algorithm::Sha256);
        let mut ann = User { client: &mut client, name, password, algorithm, nonce };
        assert_eq!(ann.ask("DESCRIBE", "/film.mp4", "", Some(1)).status, 200);
        assert_eq!(ann.ask("DESCRIBE", "/nothing.mp4", "", Some(2)).status, 404);
        // What was said before is not said again; it may count on with a new nonce.
        let replayed = ann.ask("DESCRIBE", "/film.mp4", "", Some(2));
        assert!(is_stale(&replayed), "{replayed:?}");
        // As most players do: MD5, nothing counted, and the film's URL with its tracks.
        (ann.nonce, ann.algorithm) = (self::nonce(&replayed), Algorithm::Md5);
        let of_film = ann.authorization("SETUP", "/film.mp4", None);
        let transport = "Transport: RTP/AVP/TCP;interleaved=0-1\r\n";
        let set_up = ann.client.ask("SETUP", "/film.mp4/trackID=1", &format!("{of_film}{transport}"));
        assert_eq!(set_up.status, 200, "{set_up:?}");
        let session = format!("Session: {}\r\n", set_up.session());
        assert_eq!(ann.ask("PLAY", "/film.mp4", &session, None).status, 200);
        // Another user does not control her session; and proof for one film is none for another.
        (ann.name, ann.nonce) = ("bob", self::nonce(&ann.client.ask("DESCRIBE", "/film.mp4", "")));
        assert_eq!(ann.ask("TEARDOWN", "/film.mp4", &session, None).status, 454);
        let of_film = ann.authorization("DESCRIBE", "/film.mp4", None);
        assert_eq!(ann.client.ask("DESCRIBE", "/notes.txt", &of_film).status, 401);
    });
    assert_eq!(counts.value(Counter::AuthenticationFailures), 1);
    assert!(log.starts_with("127.0.0.1 - ann [") && log.lines().count() == 1, "{log}");
}

#[test]
fn a_nonce_is_of_one_connection() {
    serving_users(users(), Settings::default(), |address| {
        let mut first = Client::connect(address);
        let nonce = nonce(&first.ask("DESCRIBE", "/film.mp4", ""));
        let mut second = Client::connect(address);
        let (name, password, algorithm) = ("bob", "secret", Algorithm::Md5);
        let mut bob = User { client: &mut second, name, password, algorithm, nonce };
        let elsewhere = bob.ask("DESCRIBE", "/film.mp4", "", Some(1));
        assert!(is_stale(&elsewhere), "{elsewhere:?}");
        bob.nonce = self::nonce(&elsewhere);
        assert_eq!(bob.ask("DESCRIBE", "/film.mp4", "", Some(1)).status, 200);
    });
}

#[test]
fn guesses_tell_nothing_and_are_limited() {
    let (counts, _) = serving_users(users(), Settings::default(), |address| {
        let (mut inside, mut outside) = (Client::connect(address), Client::connect(address));
        let (name, algorithm) = ("bob", Algorithm::Md5);
        let nonce = nonce(&inside.ask("DESCRIBE", "/film.mp4", ""));
        let mut bob = User { client: &mut inside, name, password: "secret", algorithm, nonce };
        assert_eq!(bob.ask("DESCRIBE", "/film.mp4", "", None).status, 200);
        let nonce = self::nonce(&outside.ask("DESCRIBE", "/film.mp4", ""));
        let mut guesser = User { client: &mut outside, name, password: "guess", algorithm, nonce };
        let mut answers = Vec::new();
        for name in ["bob", "nobody"].repeat(5) {
            guesser.name = name;
            let answer = guesser.ask("DESCRIBE", "/film.mp4", "", None);
            assert!(answer.status == 401 && !is_stale(&answer), "{answer:?}");
            answers.push(answer.fields["www-authenticate"].clone());
        }
        // Known and unknown are answered alike.
        answers.dedup();
        assert_eq!(answers.len(), 1);
        // Now not even the right password is looked at; who is in stays in.
        (guesser.name, guesser.password) = ("bob", "secret");
        let limited = guesser.ask("DESCRIBE", "/film.mp4", "", None);
        assert!(limited.status == 503 && limited.fields.contains_key("retry-after"), "{limited:?}");
        assert_eq!(bob.ask("DESCRIBE", "/film.mp4", "", None).status, 200);
    });
    let (failures, limited) = (Counter::AuthenticationFailures, Counter::LimitFailures);
    assert_eq!((counts.value(failures), counts.value(limited)), (10, 1));
}
