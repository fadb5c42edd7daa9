//! Figures for Prometheus over HTTP, with nothing but the standard library. Takes the feature `metrics`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use strandline::{Db, Options, PmSource};

/// Answers one request.
fn serve(db: &Db, listener: &TcpListener) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    let mut request = String::new();
    BufReader::new(&stream).read_line(&mut request)?;
    let (status, body) = match request.split_whitespace().nth(1) {
        Some("/metrics") => ("200 OK", db.properties().prometheus()),
        _ => ("404 Not Found", String::new()),
    };
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    write!(stream, "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n{body}")
}

/// What a scraper reads.
fn scrape(at: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(at)?;
    write!(stream, "GET {path} HTTP/1.1\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

/// Runs the example.
pub fn main() -> io::Result<()> {
    let db = Db::open("unused-for-heap", Options::default().pm(PmSource::Heap).pm_size(16 << 20))?;
    for no in 0..100_u32 {
        db.put(no.to_be_bytes(), "value")?;
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let at = listener.local_addr()?;
    std::thread::scope(|scope| -> io::Result<()> {
        let server = scope.spawn(|| (0..2).try_for_each(|_| serve(&db, &listener)));
        let figures = scrape(at, "/metrics")?;
        assert!(figures.starts_with("HTTP/1.1 200 OK"), "{figures}");
        assert!(figures.contains("# TYPE strandline_"), "{figures}");
        assert!(scrape(at, "/")?.starts_with("HTTP/1.1 404"));
        server.join().expect("no panic")
    })
}
