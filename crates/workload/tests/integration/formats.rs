//! Tests of log formats: samples from the servers' documentation, one log written in every format, and detection.

use std::ops::ControlFlow;

use proptest::prelude::*;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_workload::characterise::characterise;
use sojourn_workload::import::{
    Format, FormatError, ImportError, Imported, Keep, Options, Selection, import, selection,
};
use sojourn_workload::trace::Document;

const SECOND: i64 = 1_000_000_000;
const OCTOBER_2000: i64 = 971_211_336; // date -d '10 Oct 2000 13:55:36 -0700' +%s

fn options(format: &str, json_fields: &[&str]) -> Options {
    let json_fields: Vec<String> = json_fields.iter().map(|&field| field.to_owned()).collect();
    Options { format: Some(Format::new(format, &json_fields).unwrap()), ..Options::default() }
}

fn imported(log: &str, options: &Options) -> Result<Imported, ImportError> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    import(log.as_bytes(), options, &mut random, |_| ControlFlow::Continue(()))
}

/// The parsed values of a line: client, start in ns, duration in ns, host, `METHOD target status size`.
type Said<'a> = (&'a str, i64, Option<i64>, &'a str, &'a str);

fn check_with(format: &mut Format, line: &str, (client, unix_ns, duration_ns, host, rest): Said<'_>) {
    let entry = format.read(line.as_bytes());
    let entry = entry.unwrap_or_else(|reason| panic!("{line}: {reason}")).expect("an entry");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!((text(&entry.client).as_str(), entry.unix_ns), (client, unix_ns), "{line}");
    assert_eq!((entry.duration_ns, text(&entry.host).as_str()), (duration_ns, host), "{line}");
    let size = entry.size_bytes.map_or("-".into(), |size| size.to_string());
    let said = format!("{} {} {} {size}", text(&entry.method), text(&entry.target), entry.status);
    assert_eq!(said, rest, "{line}");
}

fn check(format: &str, line: &str, expected: Said<'_>) {
    check_with(&mut Format::new(format, &[]).unwrap(), line, expected);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_line_and_utf_16_is_named() {
    let line = "127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.0\" 200 2326\n";
    let json = "{\"ts\":1.5,\"request\":{\"remote_ip\":\"1.2.3.4\",\"method\":\"GET\",\"uri\":\"/a\"},\"status\":200,\"size\":9}\n";
    let w3c = "#Fields: date time c-ip cs-method cs-uri-stem sc-status sc-bytes\n2020-01-01 00:00:00 1.2.3.4 GET /a 200 9\n";
    for log in [line, json, w3c] {
        let report = imported(&format!("\u{feff}{log}"), &Options::default()).unwrap().report;
        assert_eq!((report.requests, report.malformed), (1, 0), "{log}");
    }
    let wide: Vec<u8> =
        "\u{feff}".encode_utf16().chain(line.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let refused =
        import(&wide[..], &Options::default(), &mut random, |_| ControlFlow::Continue(())).unwrap_err();
    assert!(refused.hint().unwrap().contains("UTF-16"), "{refused}");
}

#[test]
fn apache_log_format_strings() {
    // httpd 2.4, "Log Files" and mod_log_config.
    let frank = "127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700]";
    let apache = ("127.0.0.1", OCTOBER_2000 * SECOND, None, "", "GET /apache_pb.gif 200 2326");
    let request = r#""GET /apache_pb.gif HTTP/1.0" 200 2326"#;
    check("common", &format!("{frank} {request}"), apache);
    check(r#"%h %l %u %t "%r" %>s %b"#, &format!("{frank} {request}"), apache);
    check(r#"%h %l %u %t \"%r\" %>s %b"#, &format!("{frank} {request} and more"), apache);
    let agents = r#""http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)""#;
    check(
        r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-agent}i""#,
        &format!("{frank} {request} {agents}"),
        apache,
    );
    check(
        "vhost_combined",
        &format!("www.example.com:443 {frank} {request} {agents}"),
        ("127.0.0.1", OCTOBER_2000 * SECOND, None, "www.example.com", "GET /apache_pb.gif 200 2326"),
    );
    check(
        r#"%a %t "%m %U%q %H" %s %b %D "%{Host}i""#,
        r#"2001:db8::7 [10/Oct/2000:20:55:36 +0000] "GET /a?b=c HTTP/1.1" 404 - 1500 "example.com:81""#,
        ("2001:db8::7", OCTOBER_2000 * SECOND, Some(1_500_000), "example.com:81", "GET /a?b=c 404 0"),
    );
    check(
        r#"%a %t "%r" %>s %b %D %T %{c}a"#,
        r#"10.1.2.3 [10/Oct/2000:20:55:36 +0000] "GET /a HTTP/1.1" 200 5 215300 0 10.0.0.1"#,
        ("10.1.2.3", OCTOBER_2000 * SECOND, Some(215_300_000), "", "GET /a 200 5"),
    );
    let start = OCTOBER_2000 * SECOND + 123_456_000;
    check(
        r#"%{sec}t.%{usec_frac}t %h %{ms}T "%r" %>s %B %{UNIQUE_ID}e"#,
        r#"971211336.123456 h 20 "GET / HTTP/1.1" 200 0 Xy@z"#,
        ("h", start, Some(20_000_000), "", "GET / 200 0"),
    );
    check(
        r#"[%{%d/%b/%Y:%T}t.%{msec_frac}t %{%z}t] %h "%r" %>s %b"#,
        r#"[10/Oct/2000:13:55:36.500 -0700] h "GET / HTTP/1.1" 200 5"#,
        ("h", OCTOBER_2000 * SECOND + 500_000_000, None, "", "GET / 200 5"),
    );
    check(
        r#"%{end:%FT%T}t%{end:%z}t %T %h %!200,304{Referer}i "%r" %<s %O"#,
        r#"2000-10-10T13:55:36-0700 2 h - "GET /\"x\" HTTP/1.1" 200 5"#,
        ("h", (OCTOBER_2000 - 2) * SECOND, Some(2 * SECOND), "", r#"GET /\"x\" 200 5"#),
    );
}

#[test]
fn nginx_log_format_strings() {
    let combined = r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#;
    check(
        combined,
        r#"10.1.2.3 - - [10/Oct/2000:13:55:36 -0700] "GET /\x22 HTTP/1.1" 304 0 "-" "curl/8.0""#,
        ("10.1.2.3", OCTOBER_2000 * SECOND, None, "", r"GET /\x22 304 0"),
    );
    check(
        r#"$msec $request_time ${remote_addr}|$host "$request_method $uri$is_args$args" $status $bytes_sent"#,
        r#"971211336.250 0.200 ::1|example.com "GET /a?b" 200 512"#,
        ("::1", OCTOBER_2000 * SECOND + 50_000_000, Some(200_000_000), "example.com", "GET /a?b 200 512"),
    );
    check(
        r#"$http_x_forwarded_for [$time_iso8601] $status $body_bytes_sent $request"#,
        "10.9.9.9, 10.0.0.1 [2000-10-10T13:55:36-07:00] 200 5 GET /a b HTTP/1.1",
        ("10.9.9.9", OCTOBER_2000 * SECOND, None, "", "GET /a b 200 5"),
    );
    // A quote followed by a space does not end a quoted field if a backslash precedes it.
    check(
        r#""$request" $status $body_bytes_sent $remote_addr $msec"#,
        r#""GET /\" x HTTP/1.1" 200 5 h 971211336.000"#,
        ("h", OCTOBER_2000 * SECOND, None, "", r#"GET /\" x 200 5"#),
    );
}

#[test]
fn nginx_lists_of_several_upstream_servers_need_no_quotes() {
    let known = r#"[$time_local] "$request" $status"#;
    let check = |format: &str, values: &str, upstream_ns: Option<i64>, host: &str| {
        let mut format = Format::new(&format!("{known} {format}"), &[]).unwrap();
        let line = format!("[10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.1\" 200 {values}");
        let entry = format.read(line.as_bytes()).unwrap().unwrap();
        assert_eq!((entry.upstream_ns, &*entry.host), (upstream_ns, host.as_bytes()), "{values}");
    };
    let time = "$upstream_response_time";
    check(&format!("$request_time {time}"), "0.215 0.010, 0.200", Some(210_000_000), "");
    check(time, "0.010 : 0.200, - more", Some(210_000_000), "");
    check(time, "-", None, "");
    check(&format!("{time} $host"), "0.010, 0.200 : 0.005 site", Some(215_000_000), "site");
    check(&format!("{time} $host"), "0.010 site", Some(10_000_000), "site");
    check(&format!("\"{time}\" $host"), r#""0.010, 0.200" site"#, Some(210_000_000), "site");
    check(&format!("{time} host=$host"), "0.010, 0.200 host=site", Some(210_000_000), "site");
    check(
        &format!("$upstream_addr $upstream_status {time} $host"),
        "10.0.0.1:80, 10.0.0.2:80 502, 200 0.010, 0.200 site",
        Some(210_000_000),
        "site",
    );
}

#[test]
fn w3c_logs() {
    let mut iis = Format::new("w3c", &[]).unwrap();
    let directives = "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n\
        #Date: 2000-10-10 20:55:36\n#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username \
        c-ip cs(User-Agent) sc-status sc-bytes time-taken cs-host";
    for directive in directives.lines() {
        assert_eq!(iis.read(directive.as_bytes()), Ok(None));
    }
    check_with(
        &mut iis,
        "2000-10-10 20:55:36 10.0.0.1 GET /index.htm - 80 - 10.0.0.9 Mozilla/5.0+(X) 200 2526 1500 example.com",
        (
            "10.0.0.9",
            OCTOBER_2000 * SECOND - 1_500_000_000,
            Some(1_500_000_000),
            "example.com",
            "GET /index.htm 200 2526",
        ),
    );
    // The columns change in the middle of the log; strings may be quoted.
    assert_eq!(iis.read(b"#Fields: time cs-method cs-uri sc-status c-ip"), Ok(None));
    check_with(
        &mut iis,
        r#"20:55:36.5	GET	"/a ""b""?q"	404	h"#,
        ("h", OCTOBER_2000 * SECOND + 500_000_000, None, "", r#"GET /a ""b""?q 404 -"#),
    );
    let mut cloudfront = Format::new("w3c", &[]).unwrap();
    let fields = "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status \
        cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header \
        cs-protocol cs-bytes time-taken";
    assert_eq!(cloudfront.read(fields.as_bytes()), Ok(None));
    check_with(
        &mut cloudfront,
        "2000-10-10\t20:55:36\tLAX1\t2390282\t192.0.2.202\tGET\td111.cloudfront.net\t/video.mp4\t200\t-\t\
         Mozilla/4.0%20(x)\tv=2\t-\tMiss\tabc==\twww.example.com\thttps\t85\t0.250",
        (
            "192.0.2.202",
            OCTOBER_2000 * SECOND - 250_000_000,
            Some(250_000_000),
            "www.example.com",
            "GET /video.mp4?v=2 200 2390282",
        ),
    );
}

#[test]
fn squid_logs() {
    check(
        "squid",
        "971211336.129      7 192.168.0.1 TCP_MISS/200 4242 GET http://example.com/a?b - HIER_DIRECT/192.0.2.1 text/html",
        (
            "192.168.0.1",
            OCTOBER_2000 * SECOND + 122_000_000,
            Some(7_000_000),
            "example.com",
            "GET /a?b 200 4242",
        ),
    );
    check(
        "squid",
        "971211336.129 60000 ::1 TCP_TUNNEL/200 4242 CONNECT example.com:443 - HIER_DIRECT/192.0.2.1 -",
        (
            "::1",
            OCTOBER_2000 * SECOND + 129_000_000 - 60 * SECOND,
            Some(60 * SECOND),
            "",
            "CONNECT example.com:443 200 4242",
        ),
    );
}

#[test]
fn json_logs() {
    let nginx = r#"{"time_local":"10/Oct/2000:13:55:36 -0700","msec":"971211336.250","remote_addr":"10.0.0.1",
        "request":"GET /a\u0020b?q HTTP/1.1","status": "200","body_bytes_sent":"612","request_time":"0.250","host":"example.com"}"#;
    check(
        "json",
        &nginx.replace('\n', ""),
        ("10.0.0.1", OCTOBER_2000 * SECOND, Some(250_000_000), "example.com", "GET /a b?q 200 612"),
    );
    let caddy = r#"{"level":"info","ts":971211336.5,"logger":"http.log.access","msg":"handled request",
        "request":{"remote_ip":"127.0.0.1","remote_port":"41342","client_ip":"127.0.0.1","proto":"HTTP/2.0","method":"GET",
        "host":"localhost","uri":"/x","headers":{"User-Agent":["curl/7.82.0"],"Accept":["*/*"]}},"bytes_read":0,
        "user_id":"","duration":0.25,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}}"#;
    let start = OCTOBER_2000 * SECOND + 250_000_000;
    check(
        "json",
        &caddy.replace('\n', ""),
        ("127.0.0.1", start, Some(250_000_000), "localhost", "GET /x 200 10900"),
    );
    let google = r#"{"httpRequest":{"requestMethod":"GET","requestUrl":"https://example.com/a","requestSize":"85",
        "status":206,"responseSize":"3027","userAgent":"x","remoteIp":"192.0.2.1","latency":"0.111s"},
        "insertId":"x","timestamp":"2000-10-10T20:55:36.123456Z"}"#;
    let start = OCTOBER_2000 * SECOND + 123_456_000;
    check("json", &google.replace('\n', ""), ("192.0.2.1", start, None, "example.com", "GET /a 206 3027"));
    let mut own = Format::new(
        "json",
        &["time=t.start", "status=code", "duration_ms=took", "target=u"].map(String::from),
    );
    check_with(
        own.as_mut().unwrap(),
        r#"{"t":{"start":971211336000},"method":"GET","u":"/z","url":"/other","code":200,"took":8,"bytes":null,"ip":[]}"#,
        ("", OCTOBER_2000 * SECOND - 8_000_000, Some(8_000_000), "", "GET /z 200 -"),
    );
}

#[test]
fn formats_that_cannot_be_are_refused_with_a_cure() {
    let check = |format: &str, json_fields: &[&str], expected: &str| {
        let json_fields: Vec<String> = json_fields.iter().map(|&field| field.to_owned()).collect();
        let error: FormatError = Format::new(format, &json_fields).unwrap_err();
        assert!(error.to_string().contains(expected) && !error.hint().is_empty(), "{error}");
    };
    check("iis", &[], "unknown log format");
    check("%h %l", &[], "has no field for the time");
    check("$time_local $request", &[], "has no field for the status");
    check("%t %s %b", &[], "has no field for the request");
    check("%h%l %t %s %r", &[], "nothing between them");
    check("%{Host i", &[], "no } after {");
    check("%t %", &[], "no letter after %");
    check("%{%Q}t", &[], "conversion");
    check("%{h}T", &[], "the unit is");
    check("$", &[], "no name after $");
    check("${status", &[], "no } after {");
    check("json", &["when=t"], "MEANING=NAME");
    check("combined", &["time=t"], "goes with");
    check(&"%h ".repeat(200), &[], "more than 256 parts");
}

#[test]
fn malformed_lines_are_counted_by_reason_and_never_fatal() {
    let good = r#"{"ts":1,"method":"GET","uri":"/a","status":200,"size":5}"#;
    let log = [good, "{", r#"{"ts":"x"}"#, r#"{"ts":1}"#, r#"{"ts":1,"status":2000}"#, "[]", good].join("\n");
    let report = imported(&log, &options("json", &[])).unwrap().report;
    let reasons: Vec<_> =
        report.malformed_by_reason.iter().map(|(reason, count)| (reason.to_string(), *count)).collect();
    assert_eq!(reasons.iter().map(|(_, count)| count).sum::<u64>(), 5);
    assert!(reasons.contains(&("not a JSON object".into(), 2)), "{reasons:?}");
    let w3c = "1 2 3\n#Fields: date\n2000-10-10\n#Fields: date time cs-method cs-uri-stem sc-status sc-bytes\n\
        2000-10-10 20:55:36 GET /a 200 5\n2000-10-10 20:55:36 GET\n";
    let report = imported(w3c, &options("w3c", &[])).unwrap().report;
    assert_eq!((report.lines, report.malformed, report.directives, report.requests), (6, 4, 1, 1));
}

/// A request of the log that is written in every format.
#[derive(Clone, Debug)]
struct Line {
    ms: u64,
    duration_ms: u64,
    client: u8,
    document: u8,
    status: u16,
    size_bytes: u32,
}

fn any_line() -> impl Strategy<Value = Line> {
    let status = proptest::sample::select(vec![200, 200, 200, 304, 404]);
    (0..60_000_u64, 0..3000_u64, 0..4_u8, 0..5_u8, status, 0..9000_u32).prop_map(
        |(ms, duration_ms, client, document, status, size_bytes)| Line {
            ms,
            duration_ms,
            client,
            document,
            status,
            size_bytes,
        },
    )
}

/// Writes a line in one format.
type Spell = fn(&Line) -> String;

/// The formats with milliseconds and durations, with their names or strings.
fn spellings() -> Vec<(&'static str, Spell)> {
    fn end_ms(line: &Line) -> u64 {
        OCTOBER_2000 as u64 * 1000 + line.ms + line.duration_ms
    }
    fn seconds(ms: u64) -> String {
        format!("{}.{:03}", ms / 1000, ms % 1000)
    }
    fn nginx(line: &Line) -> String {
        let Line { client, document, status, size_bytes, duration_ms, .. } = line;
        format!(
            "{} 10.0.0.{client} \"GET /{document} HTTP/1.1\" {status} {size_bytes} {}",
            seconds(end_ms(line)),
            seconds(*duration_ms)
        )
    }
    fn apache(line: &Line) -> String {
        let Line { client, document, status, size_bytes, duration_ms, .. } = line;
        let start_ms = OCTOBER_2000 as u64 * 1000 + line.ms;
        format!(
            "10.0.0.{client} {} {}000 \"GET /{document} HTTP/1.1\" {status} {size_bytes}",
            start_ms, duration_ms
        )
    }
    fn w3c(line: &Line) -> String {
        let Line { client, document, status, size_bytes, duration_ms, .. } = line;
        let ms = end_ms(line) - OCTOBER_2000 as u64 * 1000 + (20 * 3600 + 55 * 60 + 36) * 1000;
        let time =
            format!("{:02}:{:02}:{:02}.{:03}", ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
        format!("2000-10-10 {time} 10.0.0.{client} GET /{document} - {status} {size_bytes} {duration_ms}")
    }
    fn squid(line: &Line) -> String {
        let Line { client, document, status, size_bytes, duration_ms, .. } = line;
        let end = seconds(end_ms(line));
        format!(
            "{end} {duration_ms:6} 10.0.0.{client} TCP_HIT/{status} {size_bytes} GET /{document} - HIER_NONE/- text/html"
        )
    }
    fn json(line: &Line) -> String {
        let Line { client, document, status, size_bytes, duration_ms, .. } = line;
        format!(
            r#"{{"ts":{},"remote_ip":"10.0.0.{client}","method":"GET","uri":"/{document}","status":{status},"size":"{size_bytes}","duration_ms":{duration_ms}}}"#,
            end_ms(line)
        )
    }
    fn clock(ms: u64) -> String {
        let ms = ms - OCTOBER_2000 as u64 * 1000 + (20 * 3600 + 55 * 60 + 36) * 1000;
        format!("{:02}:{:02}:{:02}.{:03}", ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000)
    }
    fn alb(line: &Line) -> String {
        let Line { client, document, status, size_bytes, duration_ms, .. } = line;
        let (end, taken) = (clock(end_ms(line)), seconds(*duration_ms));
        format!(
            "h2 2000-10-10T{end}Z app/a/1 10.0.0.{client}:5 10.0.0.1:80 {taken} -1 0.000 {status} {status} 1 {size_bytes} \
             \"GET /{document} HTTP/2.0\" \"agent\" -"
        )
    }
    fn haproxy(line: &Line) -> String {
        let Line { client, document, status, size_bytes, duration_ms, .. } = line;
        let start = clock(end_ms(line) - duration_ms);
        format!(
            "Oct 10 {} lb haproxy[7]: 10.0.0.{client}:9 [10/Oct/2000:{start}] in app/web 0/0/-1/-1/{duration_ms} {status} \
             {size_bytes} - - ---- 1/1/1/1/0 0/0 \"GET /{document} HTTP/1.1\"",
            &start[..8]
        )
    }
    fn envoy(line: &Line) -> String {
        let Line { client, document, status, size_bytes, duration_ms, .. } = line;
        let start = clock(end_ms(line) - duration_ms);
        format!(
            "[2000-10-10T{start}Z] \"GET /{document} HTTP/1.1\" {status} - 0 {size_bytes} {duration_ms} - \"10.0.0.{client}\" \
             \"agent\" \"id\" \"-\" \"-\""
        )
    }
    vec![
        ("alb", alb),
        ("haproxy", haproxy),
        ("envoy", envoy),
        (r#"$msec $remote_addr "$request" $status $body_bytes_sent $request_time"#, nginx),
        (r#"%h %{msec}t %D "%r" %>s %b"#, apache),
        ("w3c", w3c),
        ("squid", squid),
        ("json", json),
    ]
}

proptest! {
    #[test]
    fn one_log_is_the_same_trace_in_every_format(lines in proptest::collection::vec(any_line(), 1..60)) {
        let mut before: Option<sojourn_workload::trace::Trace> = None;
        for (format, spell) in spellings() {
            let header = if format == "w3c" {
                "#Fields: date time c-ip cs-method cs-uri-stem cs-uri-query sc-status sc-bytes time-taken\n"
            } else {
                ""
            };
            let log: String = header.to_owned() + &lines.iter().map(|line| spell(line) + "\n").collect::<String>();
            let keep = Keep { failed: true, ..Keep::default() };
            let Ok(found) = imported(&log, &Options { keep, ..options(format, &[]) }) else {
                prop_assert!(lines.iter().all(|line| line.status == 304), "{format}:\n{log}");
                continue;
            };
            prop_assert_eq!(found.report.malformed, 0);
            let trace = found.trace;
            if let Some(before) = &before {
                prop_assert_eq!(before, &trace, "{}", format);
            }
            before = Some(trace);
        }
    }

    #[test]
    fn a_format_that_was_named_is_found_out_too(lines in proptest::collection::vec(any_line(), 1..60)) {
        for (format, spell) in spellings().into_iter().filter(|(format, _)| !format.contains(['$', '%'])) {
            let header = if format == "w3c" {
                "#Fields: date time c-ip cs-method cs-uri-stem cs-uri-query sc-status sc-bytes time-taken\n"
            } else {
                ""
            };
            let log: String = header.to_owned() + &lines.iter().map(|line| spell(line) + "\n").collect::<String>();
            match (imported(&log, &Options::default()), imported(&log, &options(format, &[]))) {
                (Ok(found), Ok(named)) => {
                    prop_assert_eq!(found.trace, named.trace);
                    prop_assert_eq!(found.report.format.as_str(), format);
                    let by = found.report.format_detected.unwrap();
                    prop_assert_eq!(by.sample_entries, by.sample_lines);
                }
                (found, named) => prop_assert_eq!(found.is_err(), named.is_err()),
            }
        }
    }

    #[test]
    fn any_bytes_in_any_format_are_an_entry_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for (format, _) in spellings() {
            let _ = Format::new(format, &[]).unwrap().read(&bytes);
        }
        let text = String::from_utf8_lossy(&bytes);
        let _ = Format::new(&format!("%{text}"), &[]);
        let _ = Format::new(&format!("${text}"), &[]);
    }
}

#[test]
fn common_and_its_kin_are_found_out() {
    let request = r#"10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 5"#;
    let check = |line: &str, expected: &str| {
        let report = imported(&line.repeat(3), &Options::default()).unwrap().report;
        assert_eq!(report.format, expected, "{line}");
        assert_eq!((report.clients, report.documents), (1, 1), "{line}");
    };
    check(&format!("{request}\n"), "common");
    check(&format!("{request} \"-\" \"agent\"\r\n"), "combined");
    check(&format!("example.com:80 {request} \"-\" \"agent\"\n"), "vhost_combined");
    check(&format!("2001:db8::1{}\n", &request[8..]), "common");
}

#[test]
fn a_log_of_no_known_format_names_the_cure() {
    let error = imported("one|2000|GET|/a|200\n", &Options::default()).unwrap_err();
    assert!(error.to_string().contains("vhost_combined, squid, w3c, json"), "{error}");
    assert!(error.hint().unwrap().contains("--log-format"));
    let error = imported("one|2000|GET|/a|200\n", &options("squid", &[])).unwrap_err();
    assert!(error.to_string().contains("the format \"squid\""), "{error}");
}

#[test]
fn hosts_make_documents_distinct_and_failed_requests_are_marked() {
    let line = |host: &str, target: &str, status: u16| {
        format!(
            "{host}:80 10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET {target} HTTP/1.1\" {status} 5 \"-\" \"-\"\n"
        )
    };
    let log =
        line("a", "/x", 200) + &line("b", "/x", 200) + &line("a", "/x", 404) + &line("a", r"/\x22", 206);
    let keep = Keep { failed: true, ..Keep::default() };
    let Imported { trace, report } = imported(&log, &Options { keep, ..Options::default() }).unwrap();
    let document = |name: &str, host: &str, size_bytes, status| Document {
        name: name.into(),
        host: host.into(),
        size_bytes,
        status,
    };
    let all = [
        document("/x", "a", 5, 200),
        document("/x", "b", 5, 200),
        document("/x", "a", 0, 404),
        document("/\"", "a", 0, 206),
    ];
    assert_eq!(trace.documents, all);
    assert_eq!((report.requests, report.failed_requests), (4, 2));
    let got = characterise(&trace).unwrap().table1;
    assert_eq!((got.requests, got.requests_per_connection), (2, 2.0));
    let without = imported(&log, &Options::default()).unwrap().trace;
    assert_eq!((without.requests.len(), without.documents.len()), (2, 2));
}

#[test]
fn what_is_not_selected_counts_nowhere() {
    let line = |second: u32, target: &str| {
        format!("10.0.0.1 - - [10/Oct/2000:13:55:{second:02} -0700] \"GET {target} HTTP/1.1\" 200 5\n")
    };
    let log = line(1, "/img/a") + &line(2, "/b") + &line(9, "/img/c");
    let selected = |change: fn(&mut Selection)| {
        let mut options = Options::default();
        change(&mut options.selection);
        imported(&log, &options)
    };
    let found =
        selected(|selection| selection.paths = vec![selection::Pattern::new("/img/*").unwrap()]).unwrap();
    assert_eq!((found.report.requests, found.report.not_selected), (2, 1));
    let until = |selection: &mut Selection| {
        selection.to = Some(selection::Bound::new("2000-10-10T13:55:09").unwrap())
    };
    assert_eq!(selected(until).unwrap().trace.documents.len(), 2);
    let renamed =
        selected(|selection| selection.path_map = vec![selection::map("/img=/pictures").unwrap()]).unwrap();
    assert_eq!(renamed.trace.documents[0].name, "/pictures/a");
    let error = selected(|selection| selection.methods = vec!["PUT".into()]).unwrap_err();
    assert!(
        error.to_string().contains("from 2000-10-10T13:55:01-07:00 to 2000-10-10T13:55:09-07:00"),
        "{error}"
    );
}

#[test]
fn starts_are_spread_within_what_the_log_tells() {
    let log: String = (0..200)
        .map(|number| {
            format!(
                "{}.{:03} 10.0.0.{} \"GET / HTTP/1.1\" 200 5 0.010\n",
                OCTOBER_2000 + number,
                number * 5,
                number
            )
        })
        .collect();
    let found = imported(
        &log,
        &options(r#"$msec $remote_addr "$request" $status $body_bytes_sent $request_time"#, &[]),
    );
    let Imported { trace, report } = found.unwrap();
    assert_eq!((report.time_resolution_ns, report.with_duration), (1_000_000, 200));
    for (number, session) in trace.sessions.iter().enumerate() {
        let start_ns = trace.origin.unix_ns + session.start_ns as i64;
        let logged_ns = (OCTOBER_2000 + number as i64) * SECOND + number as i64 * 5_000_000 - 10_000_000;
        assert!((0..1_000_000).contains(&(start_ns - logged_ns)), "{number}: {start_ns} {logged_ns}");
    }
}
