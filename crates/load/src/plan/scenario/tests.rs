//! Scenarios from the file to the bytes of requests, without a socket.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Scenario, ScenarioInputs, answer::Answer, user::Next, user::User};
use crate::{
    Cause, Form, Shape, Target, Version,
    http::Persistence,
    plan::{distribution::Distribution, scenario::ScenarioError},
};

fn inputs() -> ScenarioInputs<'static> {
    ScenarioInputs {
        read_file: &|name| match name {
            "users.csv" => Ok(b"name,password\nann,a&b\nbob,c d\n".to_vec()),
            "photo.bin" => Ok(b"\x00\xff".to_vec()),
            _ => Err("no such file".to_owned()),
        },
        environment: &|name| (name == "TOKEN").then(|| "secret".to_owned()),
        think_shape: Shape::Constant,
    }
}

fn compiled(text: &str) -> Result<Scenario, ScenarioError> {
    let target = Target::resolve("http://127.0.0.1:81/base/").unwrap();
    let fields = ["Accept: */*".to_owned(), "User-Agent: t".to_owned()];
    let form = Form { fields: &fields, ..Form::get(&target, Version::Http11, Persistence::KeepAlive) };
    Scenario::parse(&form, text, &inputs())
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

fn text(user: &User) -> String {
    String::from_utf8_lossy(user.bytes()).into_owned()
}

fn answered(user: &mut User, scenario: &Scenario, request: u32, head: &str, body: &str) -> Next {
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let answer = Answer { status, head: head.as_bytes(), body: body.as_bytes() };
    user.answered(scenario, request, &answer, now())
}

const SHOP: &str = r#"
[users]
file = "users.csv"

[values]
shop = "s 1"

[defaults]
headers = { Accept = "text/html" }
think = "2s"

[[login]]
name = "form"
url = "/login"
take.csrf = { input = "csrf" }

[[login]]
name = "login"
url = "/login?shop=${shop}"
form = { name = "${name}", password = "${password}", csrf = "${csrf}" }
check.contains = "Hello ${name}"

[[flow]]
weight = 3
[[flow.request]]
url = "/items/${random:7-7}?x=1"
basic = "${name}:${password}"

[[flow]]
[[flow.request]]
name = "buy"
url = "/buy"
method = "PUT"
json = { id = "${id|raw}", list = [1, true, "a\"b"], note = "for ${name}" }
bearer = "${env:TOKEN}"
status = [201, "3xx"]
repeat = 2
share = 0.5
think = "1s-3s"
take.id = { pointer = "/id", default = "9" }
"#;

#[test]
fn a_kept_user_goes_on_with_its_cookies_and_values() {
    let mut scenario = compiled(SHOP).unwrap();
    let mut user = User::new(&scenario, 1, 1);
    let head = "HTTP/1.1 200 OK\r\nSet-Cookie: s=1; Path=/\r\n\r\n";
    answered(&mut user, &scenario, 0, head, r#"<input name="csrf" value="t">"#);
    let file = serde_json::to_string(&[user.kept(&scenario)]).unwrap();
    scenario.resume_users(serde_json::from_str(&file).unwrap());
    let mut again = User::again(&scenario, &scenario.kept()[0], 2);
    assert!(again.is_logged_in);
    again.prepare(&scenario, 1, now()).unwrap();
    assert!(
        text(&again).contains("Cookie: s=1\r\n") && text(&again).ends_with("csrf=t&name=bob&password=c+d")
    );
}

#[test]
fn a_user_logs_in_with_its_row_and_a_token() {
    let scenario = compiled(SHOP).unwrap();
    assert_eq!(scenario.names(), ["form", "login", "GET /items/${random:7-7}", "buy"]);
    let mut user = User::new(&scenario, 3, 1);
    assert!(!user.is_logged_in);
    user.prepare(&scenario, 0, now()).unwrap();
    let expected =
        "GET /base/login HTTP/1.1\r\nHost: 127.0.0.1:81\r\nUser-Agent: t\r\nAccept: text/html\r\n\r\n";
    assert_eq!(text(&user), expected);
    assert_eq!(user.prepare(&scenario, 1, now()), Err(Cause::ValueUnusable), "there is no token yet");
    let head = "HTTP/1.1 200 OK\r\nSet-Cookie: s=1; Path=/\r\n\r\n";
    let next = answered(&mut user, &scenario, 0, head, r#"<input name="csrf" value="t&amp;1">"#);
    assert_eq!(next, Next::Over(None));
    user.prepare(&scenario, 1, now()).unwrap();
    let expected = "POST /base/login?shop=s%201 HTTP/1.1\r\nHost: 127.0.0.1:81\r\nUser-Agent: t\r\n\
                    Accept: text/html\r\nCookie: s=1\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                    Content-Length: 32\r\n\r\ncsrf=t%261&name=bob&password=c+d";
    assert_eq!(text(&user), expected);
    // The answer leads on, with the cookie that it brings; the page there is what is checked.
    let head = "HTTP/1.1 302 Found\r\nLocation: ../home\r\nSet-Cookie: s=2; Path=/\r\n\r\n";
    assert_eq!(answered(&mut user, &scenario, 1, head, ""), Next::Follow);
    let expected = "GET /home HTTP/1.1\r\nHost: 127.0.0.1:81\r\nUser-Agent: t\r\nAccept: text/html\r\nCookie: s=2\r\n\r\n";
    assert_eq!(text(&user), expected);
    let page = "HTTP/1.1 200 OK\r\n\r\n";
    assert_eq!(answered(&mut user, &scenario, 1, page, "Hello ann"), Next::Over(Some(Cause::CheckFailed)));
    assert_eq!(answered(&mut user, &scenario, 1, page, "Hello bob!"), Next::Over(None));
}

#[test]
fn requests_carry_what_the_file_says() {
    let scenario = compiled(SHOP).unwrap();
    let mut user = User::new(&scenario, 0, 1);
    user.prepare(&scenario, 2, now()).unwrap();
    assert!(text(&user).starts_with("GET /base/items/7?x=1 HTTP/1.1\r\n"));
    assert!(text(&user).contains("\r\nAuthorization: Basic YW5uOmEmYg==\r\n"), "{}", text(&user));
    assert_eq!(user.prepare(&scenario, 3, now()), Err(Cause::ValueUnusable));
    let created = "HTTP/1.1 201 Created\r\n\r\n";
    assert_eq!(answered(&mut user, &scenario, 3, created, r#"{"id": 17}"#), Next::Over(None));
    user.prepare(&scenario, 3, now()).unwrap();
    assert!(
        text(&user).starts_with("PUT /base/buy ") && text(&user).contains("Authorization: Bearer secret\r\n")
    );
    let body = r#"{"id":17,"list":[1,true,"a\"b"],"note":"for ann"}"#;
    assert!(
        text(&user).ends_with(&format!("Content-Length: {}\r\n\r\n{body}", body.len())),
        "{}",
        text(&user)
    );
    assert_eq!(
        answered(&mut user, &scenario, 3, "HTTP/1.1 302 F\r\nLocation: /x\r\n\r\n", ""),
        Next::Over(None)
    );
    assert_eq!(
        answered(&mut user, &scenario, 3, "HTTP/1.1 200 OK\r\n\r\n", ""),
        Next::Over(Some(Cause::WrongStatus))
    );
    assert_eq!(
        answered(&mut user, &scenario, 3, "HTTP/1.1 503 X\r\n\r\n", ""),
        Next::Over(Some(Cause::Status5xx))
    );
}

#[test]
fn iterations_are_drawn_by_weight_and_share() {
    let scenario = compiled(SHOP).unwrap();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let drawn: Vec<_> = (0..4000).map(|_| scenario.draw(false, &mut random)).collect();
    let count = |expected: &[u32]| drawn.iter().filter(|drawn| ***drawn == *expected).count() as f64 / 4000.0;
    for (requests, share) in [(&[2][..], 0.75), (&[3, 3], 0.125), (&[], 0.125)] {
        assert!((count(requests) - share).abs() < 0.02, "{requests:?}: {}", count(requests));
    }
    assert!((scenario.mean_requests() - (0.75 + 0.25)).abs() < 1e-9);
    assert!(scenario.draw(true, &mut random).starts_with(&[0, 1]));
    let think = scenario.think_after(3).unwrap();
    assert_eq!(think.shape, Shape::Between { least: 0.5 });
    assert_eq!(scenario.think_after(2), Some(Distribution { mean: think.mean, shape: Shape::Constant }));
}

#[test]
fn redirections_have_a_limit_and_stay_here() {
    let scenario =
        compiled("[[request]]\nurl = \"/a\"\nmethod = \"POST\"\nbody = \"x\"\nredirects = 2\n").unwrap();
    let mut user = User::new(&scenario, 0, 1);
    let to = |status: u16, location: &str| format!("HTTP/1.1 {status} M\r\nLocation: {location}\r\n\r\n");
    user.prepare(&scenario, 0, now()).unwrap();
    assert_eq!(answered(&mut user, &scenario, 0, &to(307, "/b"), ""), Next::Follow);
    assert!(text(&user).starts_with("POST /b ") && text(&user).ends_with("\r\n\r\nx"), "{}", text(&user));
    assert_eq!(answered(&mut user, &scenario, 0, &to(303, "c?d"), ""), Next::Follow);
    assert!(text(&user).starts_with("GET /c?d ") && !text(&user).contains("Content-"), "{}", text(&user));
    assert_eq!(
        answered(&mut user, &scenario, 0, &to(302, "/d"), ""),
        Next::Over(Some(Cause::TooManyRedirects))
    );
    user.prepare(&scenario, 0, now()).unwrap();
    let elsewhere = to(302, "http://example.org/");
    assert_eq!(answered(&mut user, &scenario, 0, &elsewhere, ""), Next::Over(Some(Cause::RedirectElsewhere)));
    assert_eq!(
        answered(&mut user, &scenario, 0, "HTTP/1.1 302 F\r\n\r\n", ""),
        Next::Over(Some(Cause::Status3xx))
    );
}

#[test]
fn a_page_is_the_whole_of_its_url() {
    for url in ["http://127.0.0.1:81/old", "http://127.0.0.1:81/a/?x=${y}", "http://127.0.0.1:81/"] {
        let target = Target::resolve(url).unwrap();
        let form = Form::get(&target, Version::Http11, Persistence::KeepAlive);
        let scenario = Scenario::of_page(&form, 3, &inputs()).unwrap();
        let mut user = User::new(&scenario, 0, 1);
        user.prepare(&scenario, 0, now()).unwrap();
        assert!(text(&user).starts_with(&format!("GET {} HTTP/1.1\r\n", target.path)), "{}", text(&user));
    }
}

#[test]
fn files_are_uploaded_in_parts() {
    let file = "[[request]]\nurl = \"/up\"\nmultipart = [\n{ name = \"a\\\"b\", value = \"v ${user}\" },\n\
                { name = \"f\", file = \"photo.bin\", type = \"image/png\" }]\n";
    let scenario = compiled(file).unwrap();
    let mut user = User::new(&scenario, 5, 1);
    user.prepare(&scenario, 0, now()).unwrap();
    let (head, body) = text(&user).split_once("\r\n\r\n").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let boundary = head.split("boundary=").nth(1).unwrap().split("\r\n").next().unwrap().to_owned();
    let parts: Vec<_> = body.split(&format!("--{boundary}")).collect();
    assert_eq!(parts[1], "\r\nContent-Disposition: form-data; name=\"a%22b\"\r\n\r\nv 5\r\n");
    let file = "\r\nContent-Disposition: form-data; name=\"f\"; filename=\"photo.bin\"\r\nContent-Type: image/png\r\n\r\n";
    assert!(parts[2].starts_with(file), "{}", parts[2]);
    assert_eq!(parts[3], "--\r\n");
    let length = user.bytes().len() - head.len() - 4;
    assert!(head.contains(&format!("Content-Length: {length}")), "{head}");
}

#[test]
fn a_link_of_an_answer_is_followed_from_the_root() {
    let file = "[[request]]\nurl = \"/a\"\ntake.next = { regex = 'href=\"([^\"]+)\"' }\n\
                [[request]]\nname = \"next\"\nurl = \"${next|raw}\"\n";
    let scenario = compiled(file).unwrap();
    let mut user = User::new(&scenario, 0, 1);
    let ok = "HTTP/1.1 200 OK\r\n\r\n";
    let mut linked = |link: &str| {
        user.prepare(&scenario, 0, now()).unwrap();
        assert_eq!(answered(&mut user, &scenario, 0, ok, &format!("<a href=\"{link}\">")), Next::Over(None));
        user.prepare(&scenario, 1, now()).map(|()| text(&user).split("\r\n").next().unwrap().to_owned())
    };
    assert_eq!(linked("/b?c=d").as_deref(), Ok("GET /b?c=d HTTP/1.1"));
    assert_eq!(linked("http://127.0.0.1:81/x").as_deref(), Ok("GET /x HTTP/1.1"));
    assert_eq!(linked("http://127.0.0.2/x"), Err(Cause::RedirectElsewhere));
    assert_eq!(linked("/a b"), Err(Cause::ValueUnusable));
}

#[test]
fn refusals_say_where() {
    let check = |text: &str, expected: &str| {
        let refused = compiled(text).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(expected), "{text}: {refused}");
    };
    check("", "the scenario has no requests");
    check("[[request]]\nurl = \"/a\"\nnonsense = 1", "nonsense");
    check("[[request]]\nurl = \"a\"", "starts with a slash");
    check("[[request]]\nurl = \"/a#b\"", "fragment");
    check("[[request]]\nurl = \"/${x}\"", "${x} is not defined");
    check("[[request]]\nname = \"n\"\nurl = \"/\"\nbody = \"a\"\njson = 1", "\"n\": it has more than one");
    check("[[request]]\nurl = \"/\"\nheaders = { Content-Length = \"1\" }", "set by the generator");
    check("[[request]]\nurl = \"/\"\nheaders = { Cookie = \"1\" }", "Cookie");
    check("[[request]]\nurl = \"/\"\nmethod = \"G T\"", "not a method");
    check("[[request]]\nurl = \"/\"\nstatus = \"6xx\"", "not a status");
    check("[[request]]\nurl = \"/\"\ntake.x = { regex = \"(\" }", "unclosed group");
    check("[[request]]\nurl = \"/\"\ntake.x = { pointer = \"a\" }", "begins with a slash");
    check("[[request]]\nurl = \"/\"\ntake.x = {}", "needs regex");
    check("[[request]]\nurl = \"/\"\ntake.user = { regex = \"a\" }", "cannot be the name");
    check("[[request]]\nurl = \"/\"\nthink = \"3\"", "no unit");
    check("[[request]]\nurl = \"/\"\nthink = \"3s-1s\"", "shorter time");
    check("[[request]]\nurl = \"/\"\nbody_file = \"missing\"", "no such file");
    check("[users]\nfile = \"missing\"\n[[request]]\nurl = \"/\"", "missing: no such file");
    check("[[request]]\nurl = \"/\"\n[[flow]]\nrequest = [{ url = \"/\" }]", "exclude each other");
    check("[[flow]]\nweight = 0\nrequest = [{ url = \"/\" }]", "not above zero");
    check("[[request]]\nurl = \"/\"\nheaders = { host = \"a\" }", "hint: all requests have one Host");
    check(
        "[values]\nx = \"a\"\n[defaults]\nheaders = { host = \"${x}.test\" }\n[[request]]\nurl = \"/\"",
        "has variables",
    );
}

#[test]
fn iterations_have_requests() {
    let refused = |text: &str| compiled(text).map(|_| ()).unwrap_err().to_string();
    let never = "[[request]]\nurl = \"/\"\nshare = 0\n";
    assert!(refused(never).starts_with("all requests of a flow have a share of 0\nhint: "));
    let one_of_two = "[[flow]]\nrequest = [{ url = \"/\", share = 0.5 }]\n\
                      [[flow]]\nrequest = [{ url = \"/\", share = 0 }, { url = \"/\", share = 0 }]\n";
    assert!(refused(one_of_two).contains("a share of 0"));
    let seldom = |share: &str| format!("[[request]]\nurl = \"/\"\nshare = {share}\n");
    assert!(refused(&seldom("0.0009")).contains("one in 1000 iterations"));
    assert!(refused(&seldom("1e-300")).contains("one in 1000 iterations"));
    assert!(!compiled(&seldom("0.0011")).unwrap().is_login_alone());
    // Beside a flow that is often chosen, another may be as rare as it likes.
    let rare = "[[flow]]\nrequest = [{ url = \"/\" }]\n[[flow]]\nrequest = [{ url = \"/\", share = 1e-9 }]\n";
    assert!(compiled(rare).is_ok());
    // Users who log in, and then are kept for another run.
    let login = format!("[[login]]\nurl = \"/\"\n{never}");
    assert!(compiled(&login).unwrap().is_login_alone());
    assert!(
        refused(&login.replacen("\n[[request]]", "\nshare = 0\n[[request]]", 1)).contains("a share of 0")
    );
}

#[test]
fn redirections_and_cookies_are_of_the_host_that_is_sent() {
    let check = |defaults: &str, fields: &[&str]| {
        let target = Target::resolve("http://127.0.0.1:81/").unwrap();
        let fields: Vec<String> = fields.iter().map(|&field| field.to_owned()).collect();
        let form = Form { fields: &fields, ..Form::get(&target, Version::Http11, Persistence::KeepAlive) };
        let file = format!("[defaults]\nheaders = {{ {defaults} }}\n[[request]]\nurl = \"/a\"\n");
        let scenario = Scenario::parse(&form, &file, &inputs()).unwrap();
        let mut user = User::new(&scenario, 0, 1);
        user.prepare(&scenario, 0, now()).unwrap();
        assert_eq!(
            text(&user).to_ascii_lowercase().matches("host: shop.test\r\n").count(),
            1,
            "{}",
            text(&user)
        );
        let to = |place: &str| {
            format!(
                "HTTP/1.1 302 F\r\nLocation: http://{place}/b\r\nSet-Cookie: s=1; Domain=shop.test\r\n\r\n"
            )
        };
        assert_eq!(answered(&mut user, &scenario, 0, &to("shop.test"), ""), Next::Follow);
        assert!(
            text(&user).starts_with("GET /b ") && text(&user).contains("Cookie: s=1\r\n"),
            "{}",
            text(&user)
        );
        let elsewhere = Next::Over(Some(Cause::RedirectElsewhere));
        assert_eq!(answered(&mut user, &scenario, 0, &to("127.0.0.1:81"), ""), elsewhere);
    };
    check("Host = \"shop.test\"", &[]);
    check("host = \"shop.test\"", &["Host: other.test"]);
    check("", &["Host: shop.test"]);
}

#[test]
fn a_page_has_the_bytes_of_its_body() {
    let target = Target::resolve("http://127.0.0.1:81/up").unwrap();
    let body = b"\x00\xff\xfe${user}\x80";
    let form = Form { method: "PUT", body, ..Form::get(&target, Version::Http11, Persistence::KeepAlive) };
    let scenario = Scenario::of_page(&form, 3, &inputs()).unwrap();
    let mut user = User::new(&scenario, 0, 1);
    user.prepare(&scenario, 0, now()).unwrap();
    let expected = [&b"Content-Length: 11\r\n\r\n"[..], body].concat();
    assert!(user.bytes().ends_with(&expected), "{}", text(&user));
    let head = "HTTP/1.1 307 T\r\nLocation: /other\r\n\r\n";
    assert_eq!(answered(&mut user, &scenario, 0, head, ""), Next::Follow);
    assert!(user.bytes().starts_with(b"PUT /other ") && user.bytes().ends_with(&expected), "{}", text(&user));
}

#[test]
fn an_encoded_body_cannot_be_looked_into() {
    let file = "[[request]]\nurl = \"/a\"\ncheck.lacks = \"error\"\n\
                [[request]]\nname = \"take\"\nurl = \"/a\"\ntake.x = { regex = \"x\", default = \"\" }\n\
                [[request]]\nname = \"head\"\nurl = \"/a\"\ncheck.header = { X = \"1\" }\ntake.y = { header = \"X\" }\n";
    let scenario = compiled(file).unwrap();
    let mut user = User::new(&scenario, 0, 1);
    let mut check = |request: u32, encoding: &str, body: &str, expected: Option<Cause>| {
        user.prepare(&scenario, request, now()).unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nX: 1\r\nContent-Encoding: {encoding}\r\n\r\n");
        assert_eq!(answered(&mut user, &scenario, request, &head, body), Next::Over(expected), "{encoding}");
    };
    for encoding in ["gzip", "identity, br", " zstd"] {
        check(0, encoding, "?", Some(Cause::BodyEncoded));
        check(1, encoding, "?", Some(Cause::BodyEncoded));
        check(2, encoding, "?", None);
        check(0, encoding, "", None);
    }
    check(0, "Identity", "?", None);
    check(1, "", "?", None);
    check(0, "identity", "an error", Some(Cause::CheckFailed));
    let answer =
        Answer { status: 200, head: b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", body: b"?" };
    let words = user.explanation(&scenario, 0, &answer, Cause::BodyEncoded);
    assert!(words.contains("200 OK; the body is encoded (gzip), so it cannot be checked"), "{words}");
}

#[test]
fn a_recording_becomes_an_iteration() {
    let entry = |at: &str, request: &str, status: u16| {
        format!(
            r#"{{"startedDateTime": "2026-11-21T10:00:{at}+01:00", "time": 100, "request": {request}, "response": {{"status": {status}}}}}"#
        )
    };
    let get = |url: &str| {
        format!(
            r#"{{"method": "GET", "url": "{url}", "headers": [{{"name": "Accept", "value": "x"}}, {{"name": "Cookie", "value": "y"}}, {{"name": ":path", "value": "z"}}]}}"#
        )
    };
    let form = r#"{"method": "POST", "url": "http://127.0.0.1:9/in?a", "postData": {"mimeType": "application/x-www-form-urlencoded", "params": [{"name": "n", "value": "a b${"}]}}"#;
    let json = r#"{"method": "POST", "url": "http://127.0.0.1:9/api", "postData": {"mimeType": "application/json", "text": "{}"}}"#;
    let entries = [
        entry("02.000Z", "0", 200)
            .replace("Z+01:00", "+01:00")
            .replace(r#""request": 0"#, &format!(r#""request": {form}"#)),
        entry("00.000", &get("http://127.0.0.1:9/"), 200),
        entry("00.050", &get("http://ads.test/x"), 200),
        entry("02.150", &get("http://127.0.0.1:9/after-redirect"), 200),
        entry("02.300", json, 404),
    ];
    let entries = entries.join(",").replacen("\"status\": 200", "\"status\": 302", 1);
    let har = format!(r#"{{"log": {{"entries": [{entries}]}}}}"#);
    let target = Target::resolve("http://127.0.0.1:81/").unwrap();
    let base = Form::get(&target, Version::Http11, Persistence::KeepAlive);
    let scenario = Scenario::from_har(&base, &har, &inputs()).unwrap();
    assert_eq!(scenario.names(), ["GET /", "POST /in", "POST /api"]);
    assert!(scenario.warnings()[0].starts_with("1 requests"), "{:?}", scenario.warnings());
    assert!((scenario.think_after(0).unwrap().mean.seconds() - 1.9).abs() < 1e-6);
    assert_eq!(scenario.think_after(1).unwrap().mean.seconds(), 0.0);
    let mut user = User::new(&scenario, 0, 1);
    let mut made = |request| {
        user.prepare(&scenario, request, now()).unwrap();
        text(&user)
    };
    assert!(made(0).contains("\r\naccept: x\r\n\r\n") && !made(0).contains("z"), "{}", made(0));
    assert!(made(1).ends_with("\r\n\r\nn=a+b%24%7B") && made(1).starts_with("POST /in?a "), "{}", made(1));
    assert!(made(2).contains("content-type: application/json\r\n") && made(2).ends_with("\r\n\r\n{}"));
    assert_eq!(answered(&mut user, &scenario, 2, "HTTP/1.1 404 N\r\n\r\n", ""), Next::Over(None));
    assert!(Scenario::from_har(&base, "{}", &inputs()).is_err());
    let live = har.replace("127.0.0.1:9", "shop.test");
    let scenario = Scenario::from_har(&base, &live, &inputs()).unwrap();
    assert_eq!(scenario.names(), ["GET /", "POST /in", "POST /api"]);
    assert!(scenario.warnings()[0].contains("is of shop.test"), "{:?}", scenario.warnings());
}

/// The names of the requests that a recording becomes: of each entry the URL, the status and where it redirects to.
fn recorded(entries: &[(&str, u16, &str)]) -> Vec<String> {
    let entries = entries.iter().enumerate().map(|(second, (url, status, to))| {
        serde_json::json!({
            "startedDateTime": format!("2026-11-21T10:00:{second:02}Z"),
            "request": { "method": "GET", "url": url },
            "response": { "status": status, "redirectURL": to },
        })
    });
    let har = serde_json::json!({ "log": { "entries": entries.collect::<Vec<_>>() } }).to_string();
    let target = Target::resolve("http://127.0.0.1:81/").unwrap();
    let form = Form::get(&target, Version::Http11, Persistence::KeepAlive);
    let scenario = Scenario::from_har(&form, &har, &inputs()).unwrap();
    scenario.names().iter().map(|name| name.trim_start_matches("GET ").to_owned()).collect()
}

#[test]
fn a_recording_leaves_out_where_its_redirects_lead() {
    // One page loads several things at once: what begins next is not the target.
    let found = recorded(&[
        ("http://shop.test/", 200, ""),
        ("http://shop.test/static/logo", 302, "../cdn/./logo.png?v=ü"),
        ("http://shop.test/app.js", 200, ""),
        ("http://shop.test/static/font", 301, "http://shop.test/cdn/font#top"),
        ("http://shop.test/cdn/logo.png?v=%C3%BC", 200, ""),
        ("http://shop.test/cdn/font", 200, ""),
        ("http://shop.test/cdn/font", 200, ""),
    ]);
    assert_eq!(found, ["/", "/static/logo", "/app.js", "/static/font", "/cdn/font"]);
    // From one redirect to the next, also of a POST, and by https.
    let found = recorded(&[
        ("http://shop.test/a", 307, "/b"),
        ("http://shop.test/b", 308, "https://shop.test/c"),
        ("https://shop.test/c", 303, "?d"),
        ("https://shop.test/c?d", 200, ""),
        ("http://shop.test/own", 200, ""),
    ]);
    assert_eq!(found, ["/a", "/own"]);
    // What other hosts lead back to is no part of a request.
    let found = recorded(&[
        ("http://shop.test/pay", 302, "https://bank.test/x"),
        ("https://bank.test/x", 302, "http://shop.test/paid"),
        ("http://shop.test/paid", 200, ""),
    ]);
    assert_eq!(found, ["/pay", "/paid"]);
    // Where the recording does not say it: the next one.
    for (status, expected) in [(302, &["/a"][..]), (307, &["/a"]), (308, &["/a"]), (300, &["/a", "/b"])] {
        assert_eq!(
            recorded(&[("http://shop.test/a", status, ""), ("http://shop.test/b", 200, "")]),
            expected
        );
    }
}

proptest! {
    #[test]
    fn whatever_values_are_taken_a_request_stays_one_request(value in "\\PC{0,20}|[\\x00-\\x7f]{0,20}") {
        let file = "[[request]]\nurl = \"/a\"\ntake.x = { regex = \"(?s).*\" }\n\
                    [[request]]\nurl = \"/b/${x}?y=${x}\"\nform = { a = \"${x}\", \"${x}\" = \"b\" }\nheaders = { X = \"${x}\" }\n";
        let scenario = compiled(file).unwrap();
        let mut user = User::new(&scenario, 0, 1);
        prop_assert_eq!(answered(&mut user, &scenario, 0, "HTTP/1.1 200 OK\r\n\r\n", &value), Next::Over(None));
        if user.prepare(&scenario, 1, now()).is_ok() {
            let text = text(&user);
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            prop_assert_eq!(head.split("\r\n").count(), 7);
            prop_assert_eq!(head.split("\r\n").next().unwrap().split(' ').count(), 3);
            let length = format!("Content-Length: {}", body.len());
            prop_assert!(head.contains(&length));
            prop_assert_eq!(body.matches('&').count(), 1);
        }
    }
}

#[test]
fn the_first_failure_is_explained() {
    let scenario = compiled(SHOP).unwrap();
    let explained = |request: u32, head: &str, body: &str| {
        let mut user = User::new(&scenario, 0, 1);
        user.prepare(&scenario, request, now()).ok();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let answer = Answer { status, head: head.as_bytes(), body: body.as_bytes() };
        let Next::Over(Some(cause)) = user.answered(&scenario, request, &answer, now()) else {
            panic!("it has not failed");
        };
        user.explanation(&scenario, request, &answer, cause)
    };
    let ok = "HTTP/1.1 200 OK\r\n\r\n";
    assert_eq!(
        explained(0, ok, "<TITLE> Log in </title><input name=token>"),
        "GET /base/login was answered 200 OK, page \"Log in\"; the form field \"csrf\" is missing, so nothing can be taken"
    );
    let away = "HTTP/1.1 302 Found\r\nLocation: http://elsewhere.test/\r\n\r\n";
    assert_eq!(
        explained(0, away, ""),
        "GET /base/login was answered 302 Found, Location: http://elsewhere.test/; the redirect goes to another \
         server, port or scheme"
    );
    let text = SHOP.replace(", csrf = \"${csrf}\"", "");
    let scenario = compiled(&text).unwrap();
    let mut user = User::new(&scenario, 0, 1);
    user.prepare(&scenario, 1, now()).unwrap();
    let answer = Answer { status: 200, head: ok.as_bytes(), body: b"wrong password" };
    assert_eq!(user.answered(&scenario, 1, &answer, now()), Next::Over(Some(Cause::CheckFailed)));
    let words = user.explanation(&scenario, 1, &answer, Cause::CheckFailed);
    assert!(words.ends_with("200 OK; the body does not contain \"Hello ann\""), "{words}");
}

#[test]
fn a_scenario_may_be_json_and_a_request_have_many_targets() {
    let text = r#"{"request": [{"name": "items", "targets": "targets.list", "status": [200, "3xx"]}]}"#;
    assert!(!super::is_har(text) && super::is_har(r#"{"log": {"entries": []}}"#) && super::is_har("{broken"));
    let target = Target::resolve("http://127.0.0.1:81/base/").unwrap();
    let form = Form::get(&target, Version::Http11, Persistence::KeepAlive);
    let inputs = ScenarioInputs { read_file: &|_| Ok(b"/items/7?x=1 5\n".to_vec()), ..inputs() };
    let scenario = Scenario::parse(&form, text, &inputs).unwrap();
    let mut user = User::new(&scenario, 0, 1);
    user.prepare(&scenario, 0, now()).unwrap();
    assert!(super::tests::text(&user).starts_with("GET /base/items/7?x=1 HTTP/1.1\r\n"));
    let refused = |text: &str, words: &str| {
        let error = Scenario::parse(&form, text, &inputs).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(r#"{"request": [{}]}"#, "it needs a url, or targets");
    refused(r#"{"request": [{"url": "/", "targets": "x"}]}"#, "exclude each other");
}
