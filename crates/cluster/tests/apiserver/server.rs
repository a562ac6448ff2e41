//! An HTTP server that answers by script, and remembers what it was asked.
//!
//! It is never closed: a source that outlives its test must not meet the server of another one at the same port.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use cluster::Kind;
use cluster::apiserver::Encoding;
use prost::bytes::Bytes;
use serde_json::Value;

use super::spell;

/// What is sent for one request.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    /// Each goes out as a chunk of its own.
    chunks: Vec<Bytes>,
    end: End,
    until: Option<Until>,
}

/// An answer with one of these is given repeatedly, until this holds of a request: that one gets the next answer.
#[derive(Clone)]
struct Until(Arc<dyn Fn(&Asked) -> bool + Send + Sync>);

impl std::fmt::Debug for Until {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Until")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As HTTP has it.
    Proper,
    /// The connection is closed in the middle.
    Cut,
    /// The connection stays open, and nothing comes any more.
    Silence,
    /// The last chunk is sent repeatedly until the client goes.
    Repeat,
}

impl Answer {
    pub(crate) fn ok(encoding: Encoding, body: Vec<u8>, end: End) -> Answer {
        Answer::typed(spell::content_type(encoding), body, end)
    }

    pub(crate) fn typed(content_type: &str, body: Vec<u8>, end: End) -> Answer {
        let headers = vec![("content-type", content_type.to_owned())];
        Answer { status: 200, headers, chunks: vec![body.into()], end, until: None }
    }

    /// A refusal in the words of an apiserver.
    pub(crate) fn refusal(code: u16, reason: &str) -> Answer {
        let body = spell::status(code, reason).to_string().into_bytes();
        Answer { status: code, ..Answer::ok(Encoding::Json, body, End::Proper) }
    }

    /// Nothing, not even a status.
    pub(crate) fn none() -> Answer {
        Answer { status: 0, headers: Vec::new(), chunks: Vec::new(), end: End::Silence, until: None }
    }

    /// Give this answer to every request until something holds of one.
    pub(crate) fn until(self, condition: impl Fn(&Asked) -> bool + Send + Sync + 'static) -> Answer {
        Answer { until: Some(Until(Arc::new(condition))), ..self }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Answer {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn in_chunks(self, chunks: impl IntoIterator<Item: Into<Bytes>>) -> Answer {
        Answer { chunks: chunks.into_iter().map(Into::into).collect(), ..self }
    }

    /// One byte a chunk.
    pub(crate) fn dripped(self) -> Answer {
        let bytes = self.chunks.concat();
        self.in_chunks(bytes.into_iter().map(|byte| vec![byte]))
    }

    fn write(&self, stream: &mut TcpStream) -> io::Result<()> {
        if self.status != 0 {
            let mut head = format!("HTTP/1.1 {} Whatever\r\ntransfer-encoding: chunked\r\n", self.status);
            self.headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
            stream.write_all(format!("{head}\r\n").as_bytes())?;
        }
        for chunk in self.chunks.iter().filter(|chunk| !chunk.is_empty()) {
            write_chunk(stream, chunk)?;
        }
        match self.end {
            End::Proper => stream.write_all(b"0\r\n\r\n"),
            // The beginning of a chunk, so that it cannot be taken for the end.
            End::Cut => stream.write_all(b"ff\r\n").and_then(|()| stream.shutdown(std::net::Shutdown::Both)),
            End::Silence => await_close(stream),
            End::Repeat => loop {
                write_chunk(stream, self.chunks.last().unwrap())?;
                std::thread::sleep(std::time::Duration::from_millis(10));
            },
        }
    }
}

fn write_chunk(stream: &mut TcpStream, chunk: &[u8]) -> io::Result<()> {
    stream.write_all(&[format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())
}

fn await_close(stream: &mut TcpStream) -> io::Result<()> {
    io::copy(stream, &mut io::sink()).map(drop)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// A list as a stream.
    Stream,
    /// A list in pages.
    Page,
    Watch,
}

#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) kind: Kind,
    pub(crate) wish: Wish,
    pub(crate) query: String,
    pub(crate) accept: String,
    /// In small letters.
    pub(crate) authorization: String,
    pub(crate) at: Instant,
}

impl Asked {
    /// A parameter of the query; empty if it is not there.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next().unwrap_or_default()
    }
}

/// The answers for each kind, in the order of the requests for it. A kind without a script is empty and quiet; a
/// script that is at its end is silent.
pub(crate) type Scripts = HashMap<Kind, VecDeque<Answer>>;

#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// The Event objects that were created.
    events: Arc<Mutex<Vec<Value>>>,
    scripts: Arc<Mutex<Scripts>>,
}

impl Server {
    pub(crate) fn start(scripts: Scripts) -> Server {
        Server::start_at("127.0.0.1:0".parse().unwrap(), scripts)
    }

    pub(crate) fn start_at(address: SocketAddr, scripts: Scripts) -> Server {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, events) = (Arc::default(), Arc::default());
        let server = Server { address, asked, events, scripts: Arc::new(Mutex::new(scripts)) };
        let own = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = own.clone();
                // A client that goes away in the middle is part of some tests.
                std::thread::spawn(move || drop(server.serve(stream)));
            }
        });
        server
    }

    /// What was asked for a kind so far.
    pub(crate) fn asked(&self, kind: Kind) -> Vec<Asked> {
        self.all().into_iter().filter(|asked| asked.kind == kind).collect()
    }

    pub(crate) fn all(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        self.events.lock().unwrap().clone()
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some(request) = read_request(&mut reader)? {
            let answer = match request {
                Request::Read(asked) => {
                    let answer = self.answer(&asked);
                    self.asked.lock().unwrap().push(asked);
                    answer
                }
                Request::Event(event) => {
                    self.events.lock().unwrap().push(event);
                    Answer::ok(Encoding::Json, b"{}".to_vec(), End::Proper)
                }
            };
            answer.write(&mut stream)?;
        }
        Ok(())
    }

    fn answer(&self, asked: &Asked) -> Answer {
        match self.scripts.lock().unwrap().get_mut(&asked.kind) {
            Some(script) => next(script, asked).unwrap_or_else(Answer::none),
            None => quiet(asked.wish),
        }
    }
}

fn next(script: &mut VecDeque<Answer>, asked: &Asked) -> Option<Answer> {
    while let Some(answer) = script.pop_front() {
        match &answer.until {
            Some(Until(holds)) if holds(asked) => {}
            Some(_) => {
                script.push_front(answer.clone());
                return Some(answer);
            }
            None => return Some(answer),
        }
    }
    None
}

/// A kind of which there is nothing.
fn quiet(wish: Wish) -> Answer {
    let json = Encoding::Json;
    match wish {
        Wish::Stream => Answer::ok(json, spell::mark(json, 1), End::Silence),
        Wish::Page => Answer::ok(json, spell::list(json, 1, "", &[]), End::Proper),
        Wish::Watch => Answer::ok(json, Vec::new(), End::Silence),
    }
}

enum Request {
    Read(Asked),
    Event(Value),
}

/// `None` where the client closed the connection.
fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let target = head.first().and_then(|line| line.split(' ').nth(1)).unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let header =
        |name: &str| head.iter().find_map(|line| line.to_lowercase().strip_prefix(name).map(str::to_owned));
    if path.contains("/events") {
        let length = header("content-length: ").and_then(|length| length.parse().ok()).unwrap();
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        return Ok(Some(Request::Event(serde_json::from_slice(&body)?)));
    }
    let accept = header("accept: ");
    let wish = match (query.contains("sendInitialEvents=true"), query.contains("watch=true")) {
        (true, _) => Wish::Stream,
        (_, true) => Wish::Watch,
        _ => Wish::Page,
    };
    Ok(Some(Request::Read(Asked {
        kind: kind_of(path),
        wish,
        query: query.to_owned(),
        accept: accept.unwrap_or_default(),
        authorization: header("authorization: ").unwrap_or_default(),
        at: Instant::now(),
    })))
}

fn kind_of(path: &str) -> Kind {
    match path.rsplit('/').next().unwrap() {
        "services" => Kind::Service,
        "endpointslices" => Kind::EndpointSlice,
        "nodes" => Kind::Node,
        "servicecidrs" => Kind::ServiceCidr,
        other => panic!("nobody should ask for {other}"),
    }
}
