//! From here to the apiserver: TCP, a proxy on the way if there is one, TLS.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A server that takes longer to take a connection is tried again.
const CONNECT: Duration = Duration::from_secs(10);
/// The other family of addresses is tried beside the first one after this time, as client-go does.
const OTHER_FAMILY: Duration = Duration::from_millis(300);
/// Of the time for one address, where a name has many.
const LEAST_SHARE: Duration = Duration::from_secs(2);
/// What a proxy says before it forwards.
const LARGEST_ANSWER: usize = 8 * 1024;

/// Boxed, so that HTTP and TLS are compiled once and not for each way to a server.
pub(super) type Stream = Box<dyn Duplex>;
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

/// Where a connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Peer {
    /// An IPv6 address is without brackets.
    host: String,
    port: u16,
    is_tls: bool,
}

/// How connections to an apiserver are made.
pub(super) struct Route {
    server: Peer,
    proxy: Option<Proxy>,
    tls: TlsConnector,
    /// What certificates are held against, if not the host.
    server_name: Option<ServerName<'static>>,
}

struct Proxy {
    peer: Peer,
    /// `Basic …`, if the URL has a user.
    authorization: Option<String>,
}

impl Route {
    pub(super) fn new(
        server: &Uri,
        proxy: Option<&Uri>,
        tls: Arc<ClientConfig>,
        server_name: Option<&str>,
    ) -> Result<Route, String> {
        let server =
            Peer::of(server).ok_or("its URL has no host, or begins with neither https:// nor http://")?;
        let proxy = match proxy {
            // Not the URL itself: there may be a password in it.
            Some(url) => Some(
                Proxy::of(url)
                    .ok_or("the proxy-url of its kubeconfig begins with neither http:// nor https://")?,
            ),
            None => None,
        };
        let server_name = server_name.map(named).transpose().map_err(|error| error.to_string())?;
        Ok(Route { server, proxy, tls: TlsConnector::from(tls), server_name })
    }

    pub(super) async fn connect(&self) -> io::Result<Stream> {
        tokio::time::timeout(CONNECT, self.establish()).await.map_err(|_| late(CONNECT))?
    }

    async fn establish(&self) -> io::Result<Stream> {
        let stream = match &self.proxy {
            None => self.server.dial().await?,
            Some(proxy) => {
                let mut stream = self.secure(proxy.peer.dial().await?, &proxy.peer).await?;
                proxy.pass(&mut stream, &self.server).await?;
                stream
            }
        };
        self.secure(stream, &self.server).await
    }

    async fn secure(&self, stream: Stream, peer: &Peer) -> io::Result<Stream> {
        if !peer.is_tls {
            return Ok(stream);
        }
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => named(&peer.host)?,
        };
        Ok(Box::new(self.tls.connect(name, stream).await?))
    }
}

fn named(host: &str) -> io::Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))
}

impl Peer {
    fn of(url: &Uri) -> Option<Peer> {
        let is_tls = match url.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let host = url.host()?.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = url.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Some(Peer { host, port, is_tls })
    }

    /// As it stands in a URL.
    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    async fn dial(&self) -> io::Result<Stream> {
        let found: Vec<SocketAddr> = tokio::net::lookup_host((&*self.host, self.port)).await?.collect();
        let prefers_ipv6 = found.first().is_some_and(SocketAddr::is_ipv6);
        let (first, other): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|address| address.is_ipv6() == prefers_ipv6);
        let stream = match other.is_empty() {
            true => connect_to_any(&first).await?,
            false => race(connect_to_any(&first), connect_to_any(&other)).await?,
        };
        Ok(Box::new(stream))
    }
}

/// The first that answers. Each has its share of the time, so that one that is silent does not hide the others.
async fn connect_to_any(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let share = (CONNECT / count).max(LEAST_SHARE);
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match tokio::time::timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = late(share),
        }
    }
    Err(last)
}

fn late(time: Duration) -> io::Error {
    io::Error::new(ErrorKind::TimedOut, format!("no connection within {} s", time.as_secs()))
}

/// The first that succeeds; the second begins later. If both fail, the error of the first.
async fn race<T>(
    first: impl Future<Output = io::Result<T>>,
    second: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let mut first = std::pin::pin!(first);
    match tokio::time::timeout(OTHER_FAMILY, &mut first).await {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(error)) => return second.await.map_err(|_| error),
        Err(_) => {}
    }
    let mut second = std::pin::pin!(second);
    tokio::select! {
        done = &mut first => match done {
            Ok(done) => Ok(done),
            Err(error) => second.await.map_err(|_| error),
        },
        done = &mut second => match done {
            Ok(done) => Ok(done),
            Err(_) => first.await,
        },
    }
}

impl Proxy {
    fn of(url: &Uri) -> Option<Proxy> {
        let (user, _) = url.authority()?.as_str().rsplit_once('@').unzip();
        let user = user.map(|user| percent_encoding::percent_decode_str(user).collect::<Vec<u8>>());
        let authorization = user.map(|user| format!("Basic {}", super::base64::encode(&user)));
        Some(Proxy { peer: Peer::of(url)?, authorization })
    }

    /// Ask for a way to `server`; what follows on `stream` is between it and us.
    async fn pass(&self, stream: &mut Stream, server: &Peer) -> io::Result<()> {
        let place = server.authority();
        let mut request = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n");
        if let Some(authorization) = &self.authorization {
            request += &format!("Proxy-Authorization: {authorization}\r\n");
        }
        stream.write_all((request + "\r\n").as_bytes()).await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() > LARGEST_ANSWER {
                return Err(io::Error::other("the proxy's response is too long"));
            }
            // Not a byte more than the answer: the rest is the server's.
            answer.push(stream.read_u8().await?);
        }
        let answer = String::from_utf8_lossy(&answer);
        match answer.split_whitespace().nth(1) {
            Some("200") => Ok(()),
            Some("407") => Err(io::Error::other("the proxy rejected the credentials (407)")),
            _ => {
                let said = answer.lines().next().unwrap_or_default();
                Err(io::Error::other(format!("the proxy refused the connection: {said}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place where nobody answers: its queue is full, so the kernel drops what comes.
    fn silent() -> (std::net::TcpListener, Vec<std::net::TcpStream>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let full = || std::net::TcpStream::connect_timeout(&at, Duration::from_millis(50)).ok();
        let queued = std::iter::from_fn(full).take(10_000).collect();
        (listener, queued)
    }

    #[tokio::test]
    async fn an_address_that_is_silent_does_not_hide_the_next() {
        let (silent, _queued) = silent();
        let answers = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = [silent.local_addr().unwrap(), answers.local_addr().unwrap()];
        let stream = tokio::time::timeout(CONNECT, connect_to_any(&addresses)).await.unwrap().unwrap();
        assert_eq!(stream.peer_addr().unwrap(), addresses[1]);
    }
}
