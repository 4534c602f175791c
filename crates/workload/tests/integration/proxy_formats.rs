//! Tests of logs of load balancers, proxies, object stores, and IIS with its default columns: samples from the
//! products' documentation, read with the detected format.

use std::ops::ControlFlow;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_workload::import::{Format, ImportError, Imported, Malformed, Options, import};

const MS: i64 = 1_000_000;

fn imported(log: &str, options: &Options) -> Result<Imported, ImportError> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    import(log.as_bytes(), options, &mut random, |_| ControlFlow::Continue(()))
}

/// Checks the parsed values of a line: `CLIENT HOST METHOD TARGET STATUS BYTES`, start in ms since 1970, duration and
/// upstream time in ms.
fn check(format: &str, line: &str, expected: &str, times_ms: (i64, Option<i64>, Option<i64>)) {
    let mut format = Format::new(format, &[]).unwrap();
    let entry = format.read(line.as_bytes()).unwrap_or_else(|reason| panic!("{line}: {reason}")).unwrap();
    let text = |bytes: &[u8]| {
        if bytes.is_empty() { "-".into() } else { String::from_utf8_lossy(bytes).into_owned() }
    };
    let size = entry.size_bytes.map_or("-".into(), |size| size.to_string());
    let (client, host, method, target) =
        (text(&entry.client), text(&entry.host), text(&entry.method), text(&entry.target));
    assert_eq!(format!("{client} {host} {method} {target} {} {size}", entry.status), expected, "{line}");
    let ms = |ns: Option<i64>| ns.map(|ns| ns / MS);
    assert_eq!((entry.unix_ns / MS, ms(entry.duration_ns), ms(entry.upstream_ns)), times_ms, "{line}");
}

/// Checks that detection recognises the line, repeated three times, as this format.
fn is_found_out(line: &str, format: &str) {
    let found = imported(&format!("{line}\n").repeat(3), &Options::default());
    let found = found.map(|found| found.report.format);
    match found {
        Ok(found) => assert_eq!(found, format, "{line}"),
        Err(ImportError::NoStaticRequest { .. }) => {}
        Err(error) => panic!("{line}: {error}"),
    }
}

#[test]
fn application_load_balancers() {
    // AWS, "Access logs for your Application Load Balancer", example entries.
    let behind = |request: &str| {
        format!(
            "{request} - - arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 \
         \"Root=1-58337262-36d228ad5d99923122bbe354\" \"-\" \"-\" 0 2018-07-02T22:22:48.364000Z \"forward\" \"-\" \"-\" \
         \"10.0.0.1:80\" \"200\" \"-\" \"-\""
        )
    };
    let july_2018 = 1_530_570_180_186; // date -d 2018-07-02T22:23:00.186Z +%s%3N
    let http = behind(
        "http 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.000 \
         0.001 0.000 200 200 34 366 \"GET http://www.example.com:80/ HTTP/1.1\" \"curl/7.46.0\"",
    );
    let times = (july_2018 - 1, Some(1), Some(1));
    check("alb", &http, "192.168.131.39 www.example.com:80 GET / 200 366", (times.0, times.1, times.2));
    is_found_out(&http, "alb");
    let h2 = behind(
        "h2 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 10.0.1.252:48160 10.0.0.66:9000 0.000 0.002 \
         0.000 200 200 5 257 \"GET https://10.0.2.105:773/ HTTP/2.0\" \"curl/7.46.0\"",
    );
    check("alb", &h2, "10.0.1.252 10.0.2.105:773 GET / 200 257", (july_2018 - 2, Some(2), Some(2)));
    // A failed Lambda function: nothing was sent on, so the times are -1.
    let lambda = behind(
        "https 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 - 0.000 0.001 -1 502 - \
         34 366 \"GET https://www.example.com:443/a?b HTTP/1.1\" \"curl/7.46.0\"",
    );
    check(
        "alb",
        &lambda,
        "192.168.131.39 www.example.com:443 GET /a?b 502 366",
        (july_2018 - 1, Some(1), Some(1)),
    );
    let nothing = behind(
        "http 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 10.0.0.140:40914 - -1 -1 -1 400 - 0 272 \
         \"- http://www.example.com:80- -\" \"-\"",
    );
    check("alb", &nothing, "10.0.0.140 - - - 400 272", (july_2018, None, None));
}

#[test]
fn haproxy_alone_and_within_syslog() {
    // HAProxy configuration manual, "HTTP log format".
    let plain = "10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 \
                 0/0 {1wt.eu} {} \"GET /index.html HTTP/1.1\"";
    let february_2009 = 1_233_922_454_655; // date -d 2009-02-06T12:14:14.655Z +%s%3N
    let expected = "10.0.1.2 - GET /index.html 200 2750";
    for before in [
        "",
        "Feb  6 12:14:14 localhost haproxy[14389]: ",
        "<134>Feb  6 12:14:14 haproxy[14389]: ",
        "<134>1 2009-02-06T12:14:14.655Z localhost haproxy 14389 - - ",
        "<134>1 2009-02-06T12:14:14.655Z localhost haproxy 14389 - [meta sequenceId=\"1\"] ",
        "2009-02-06T12:14:14.655+00:00 localhost haproxy[14389]: ",
    ] {
        let line = format!("{before}{plain}");
        check("haproxy", &line, expected, (february_2009, Some(109), Some(69)));
        is_found_out(&line, "haproxy");
    }
    // TLS, no captures, logged before the end, an IPv6 address.
    check(
        "haproxy",
        "2001:db8::7:55729 [06/Feb/2009:12:14:14.655] http~ app/web01 8/0/0/6/+14 200 +154 - - ---- 0/0/0/0/0 0/0 \
         \"POST /admin/api/menu?x HTTP/1.1\"",
        "2001:db8::7 - POST /admin/api/menu?x 200 154",
        (february_2009, Some(14), Some(6)),
    );
    // A redirect by the proxy itself, an invalid request, a client that left, and a truncated line.
    let www = "10.0.0.1:1 [06/Feb/2009:12:14:14.655] www www/<NOSRV>";
    let tail = "- - LR-- 0/0/0/0/0 0/0";
    check(
        "haproxy",
        &format!("{www} 116/-1/-1/-1/116 302 116 {tail} \"HEAD / HTTP/1.1\""),
        "10.0.0.1 - HEAD / 302 116",
        (february_2009, Some(116), None),
    );
    check(
        "haproxy",
        &format!("{www} -1/-1/-1/-1/50 400 187 {tail} \"<BADREQ>\""),
        "10.0.0.1 - - - 400 187",
        (february_2009, Some(50), None),
    );
    check(
        "haproxy",
        &format!("{www} -1/-1/-1/-1/0 -1 0 {tail} \"<BADREQ>\""),
        "10.0.0.1 - - - 0 0",
        (february_2009, Some(0), None),
    );
    check(
        "haproxy",
        &format!("{www} 0/0/0/1/2 200 9 {tail} \"GET /long"),
        "10.0.0.1 - GET /long 200 9",
        (february_2009, Some(2), Some(1)),
    );
    let mut format = Format::new("haproxy", &[]).unwrap();
    let mut refused =
        |line: &str, expected| assert_eq!(format.read(line.as_bytes()), Err(expected), "{line}");
    refused(
        "Feb  6 12:12:09 localhost haproxy[14385]: Connect from 10.0.1.2:33312 to 10.0.3.31:8012 (www/HTTP)",
        Malformed::NoDate,
    );
    refused(
        "10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0",
        Malformed::BadDuration,
    );
    refused("10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt", Malformed::Separator);
}

#[test]
fn envoy() {
    // Envoy, "Access logging", default format string and its example.
    let example = "[2016-04-15T20:17:00.310Z] \"POST /api/v1/locations HTTP/2\" 204 - 154 0 226 100 \"10.0.35.28\" \
                   \"nsq2http\" \"cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2\" \"locations\" \"tcp://10.0.2.1:80\"";
    let april_2016 = 1_460_751_420_310; // date -d 2016-04-15T20:17:00.310Z +%s%3N
    let expected = "10.0.35.28 locations POST /api/v1/locations 204 0";
    check("envoy", example, expected, (april_2016, Some(226), Some(100)));
    let get = example.replace("POST", "GET").replace(" 204 ", " 200 ");
    is_found_out(&get, "envoy");
    let gone = "[2016-04-15T20:17:00.310Z] \"GET / HTTP/1.1\" 0 DC 0 0 5 - \"-\" \"-\" \"id\" \"site\" \"-\"";
    check("envoy", gone, "- site GET / 0 0", (april_2016, Some(5), None));
}

#[test]
fn object_stores() {
    // Amazon S3, "Server access log format", examples.
    let owner = "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be";
    let entry = |rest: &str| {
        format!("{owner} amzn-s3-demo-bucket1 [06/Feb/2019:00:00:38 +0000] 192.0.2.3 {owner} {rest}")
    };
    let february_2019 = 1_549_411_238_000; // date -d 2019-02-06T00:00:38Z +%s%3N
    let versioning = entry(
        "3E57427F3EXAMPLE REST.GET.VERSIONING - \"GET /amzn-s3-demo-bucket1?versioning HTTP/1.1\" 200 - 113 - 7 - \"-\" \
         \"S3Console/0.4\" - s9lzHYrFp76ZVxRcpX9+5cjAnEH2ROuNkd2BHfIa6UkFVdtjf5mKR3/eTPFvsiP/XV/VLi31234= SigV4 \
         ECDHE-RSA-AES128-GCM-SHA256 AuthHeader amzn-s3-demo-bucket1.s3.us-west-1.amazonaws.com TLSV1.2 - Yes",
    );
    let expected = "192.0.2.3 amzn-s3-demo-bucket1 GET /amzn-s3-demo-bucket1?versioning 200 113";
    check("s3", &versioning, expected, (february_2019, Some(7), None));
    let get = entry(
        "DD6CC733AEXAMPLE REST.GET.OBJECT s3-dg.pdf \"GET /amzn-s3-demo-bucket1/s3-dg.pdf HTTP/1.1\" 200 - 4406583 4406583 \
         41754 28 \"-\" \"S3Console/0.4\" -",
    );
    let expected = "192.0.2.3 amzn-s3-demo-bucket1 GET /amzn-s3-demo-bucket1/s3-dg.pdf 200 4406583";
    check("s3", &get, expected, (february_2019, Some(41_754), Some(28)));
    is_found_out(&get, "s3");
    let put = get.replace("GET", "PUT").replace("4406583 4406583", "- 4406583");
    let expected = "192.0.2.3 amzn-s3-demo-bucket1 PUT /amzn-s3-demo-bucket1/s3-dg.pdf 200 0";
    check("s3", &put, expected, (february_2019, Some(41_754), Some(28)));
}

/// IIS 10 with default settings, which log no sizes.
const IIS: &str = "#Software: Microsoft Internet Information Services 10.0\r
#Version: 1.0\r
#Date: 2019-02-06 00:00:38\r
#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status sc-substatus sc-win32-status time-taken\r
2019-02-06 00:00:38 10.0.0.4 GET /iisstart.png - 80 - 192.0.2.7 Mozilla/5.0+(Windows+NT+10.0) http://10.0.0.4/ 200 0 0 15\r
2019-02-06 00:00:39 10.0.0.4 GET /iisstart.png - 80 - 192.0.2.7 Mozilla/5.0+(Windows+NT+10.0) http://10.0.0.4/ 304 0 0 2\r
2019-02-06 00:00:40 10.0.0.4 GET /find.aspx q=1 80 CORP\\me 192.0.2.7 Mozilla/5.0+(Windows+NT+10.0) - 200 0 0 31\r
2019-02-06 00:00:41 10.0.0.4 GET /favicon.ico - 80 - 192.0.2.7 Mozilla/5.0+(Windows+NT+10.0) - 404 0 2 0\r
";

#[test]
fn iis_with_its_default_columns_needs_a_size_to_assume() {
    let error = imported(IIS, &Options::default()).unwrap_err();
    assert!(error.to_string().contains("1 without a size"), "{error}");
    let hint = error.hint().unwrap();
    assert!(hint.contains("sc-bytes") && hint.contains("--assume-size"), "{hint}");
    let options = Options { assumed_size_bytes: Some(20_000), ..Options::default() };
    let Imported { trace, report } = imported(IIS, &options).unwrap();
    assert_eq!((report.format.as_str(), report.malformed, report.directives), ("w3c", 0, 4));
    assert_eq!((report.requests, report.assumed_size_requests), (2, 2));
    assert_eq!(trace.documents[0].size_bytes, 20_000);
    assert!(report.warnings.iter().any(|warning| warning.contains("assumed")), "{:?}", report.warnings);
    assert_eq!((report.coverage.requests, report.coverage.covered_requests), (4, 2));
}
