//! Every variant answers every request with the whole file, one larger than socket buffers, and keeps or closes the
//! connection as it was told.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

const BODY_BYTES: usize = 5_000_000;
const REQUEST: &[u8] = b"GET /file HTTP/1.1\r\nHost: localhost\r\n\r\n";

struct Running {
    process: Child,
    address: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a variant; `None` where the kernel has no io_uring.
fn start(file: &std::path::Path, variant: &str, connection: &str) -> Option<Running> {
    let (running, said) = try_to_start(file, &["--variant", variant, "--connection", connection]);
    if variant == "ring" && said.contains("io_uring is not available") {
        return None;
    }
    assert!(!running.address.is_empty(), "{said}");
    Some(running)
}

fn start_with(file: &std::path::Path, options: &[&str]) -> Running {
    let (running, said) = try_to_start(file, options);
    assert!(!running.address.is_empty(), "{said}");
    running
}

/// The process, and the first line that it said.
fn try_to_start(file: &std::path::Path, options: &[&str]) -> (Running, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_null-responder"));
    let mut process = command.arg(file).args(options).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(process.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let address = said.trim().strip_prefix("listening on ").unwrap_or_default().to_owned();
    (Running { process, address }, said)
}

fn connect(running: &Running) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(&running.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    BufReader::new(stream)
}

/// Asks once; answers the connection field and the body.
fn ask(stream: &mut BufReader<TcpStream>) -> (String, Vec<u8>) {
    ask_for(stream, REQUEST)
}

fn ask_for(stream: &mut BufReader<TcpStream>, request: &[u8]) -> (String, Vec<u8>) {
    stream.get_mut().write_all(request).unwrap();
    let (mut length, mut connection, mut line) = (0, String::new(), String::new());
    loop {
        line.clear();
        stream.read_line(&mut line).unwrap();
        match line.trim_end().split_once(": ") {
            Some(("Content-Length", value)) => length = value.parse().unwrap(),
            Some(("Connection", value)) => connection = value.to_owned(),
            None if line == "\r\n" => break,
            None => assert_eq!(line, "HTTP/1.1 200 OK\r\n"),
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (connection, body)
}

fn check(variant: &str, connection: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let body: Vec<u8> = (0..BODY_BYTES).map(|index| (index % 251) as u8).collect();
    std::fs::write(&file, &body).unwrap();
    let Some(running) = start(&file, variant, connection) else { return };
    let mut stream = connect(&running);
    for _ in 0..3 {
        let (said, received) = ask(&mut stream);
        assert_eq!(said, connection);
        assert!(received == body, "the body is the file");
        if connection == "close" {
            assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "closed after its response");
            stream = connect(&running);
        }
    }
}

#[test]
fn epoll() {
    check("epoll", "keep-alive");
    check("epoll", "close");
}

#[test]
fn sendfile() {
    check("sendfile", "keep-alive");
    check("sendfile", "close");
}

#[test]
fn a_folder_answers_by_path_with_the_compressed_sibling() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("assets");
    std::fs::create_dir(&folder).unwrap();
    let long = "long".repeat(20_000);
    for (name, content) in
        [("a.css", "plain"), ("a.css.br", "brotli"), ("a.css.gz", "gzip"), ("b.bin", &long)]
    {
        std::fs::write(folder.join(name), content).unwrap();
    }
    for variant in ["epoll", "sendfile"] {
        let running = start_with(&folder, &["--variant", variant]);
        let mut stream = connect(&running);
        for (path, expected) in
            [("/assets/b.bin", &long[..]), ("/assets/a.css", "brotli"), ("/assets/b.bin", &long)]
        {
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: br\r\n\r\n");
            let (_, body) = ask_for(&mut stream, request.as_bytes());
            assert!(body == expected.as_bytes(), "{path} by {variant}");
        }
    }
}

#[test]
fn ring() {
    check("ring", "keep-alive");
    check("ring", "close");
}

#[test]
fn what_caches_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, b"body").unwrap();
    for (options, expected) in [(&["--cache-control", "max-age=60"][..], 1), (&[], 0)] {
        let running = start_with(&file, options);
        let mut stream = connect(&running);
        stream.get_mut().write_all(REQUEST).unwrap();
        let lines: Vec<_> = stream.lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        assert_eq!(lines.iter().filter(|line| *line == "Cache-Control: max-age=60").count(), expected);
        assert_eq!(lines.iter().filter(|line| line.starts_with("Date: ")).count(), 1, "{lines:?}");
    }
}

#[test]
fn an_application_answers_with_records() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, b"hello").unwrap();
    let running = start_with(&file, &["--variant", "fastcgi", "--cache-control", "no-store"]);
    let mut stream = connect(&running);
    for _ in 0..2 {
        stream.get_mut().write_all(&[1, 5, 0, 1, 0, 0, 0, 0]).unwrap();
        let mut header = [0; 8];
        stream.read_exact(&mut header).unwrap();
        assert_eq!(header[..4], [1, 6, 0, 1]);
        let mut output = vec![0; u16::from_be_bytes([header[4], header[5]]).into()];
        stream.read_exact(&mut output).unwrap();
        let output = String::from_utf8(output).unwrap();
        assert!(output.contains("Content-Length: 5\r\n") && output.ends_with("\r\n\r\nhello"), "{output}");
        let mut end = [0; 16];
        stream.read_exact(&mut end).unwrap();
        assert_eq!(end, [1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}

#[test]
fn a_gateway_passes_on_what_the_application_answers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let body: Vec<u8> = (0..50_000).map(|index| (index % 251) as u8).collect();
    std::fs::write(&file, &body).unwrap();
    let application = start_with(&file, &["--variant", "fastcgi"]);
    let options = ["--variant", "gateway", "--application", &application.address];
    let running = start_with(&file, &options);
    let mut streams = [connect(&running), connect(&running)];
    for _ in 0..3 {
        for stream in &mut streams {
            let (connection, received) = ask(stream);
            assert_eq!(connection, "keep-alive");
            assert!(received == body, "the body is the file");
        }
    }
}
