//! The ways to a server: through a proxy, and with TLS in which both sides prove who they are.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use cluster::Kind;
use cluster::apiserver::{Encoding, Settings, Timing};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;

use super::log;
use super::server::{Answer, End, Scripts, Server};
use super::source::{Source, settings};
use super::spell::{service, stream};

const ENCODING: Encoding = Encoding::Protobuf;

/// It knows one service.
fn server() -> Server {
    let known = stream(ENCODING, 10, &[service("a", "10.0.0.1", 3)]);
    let answers = vec![Answer::ok(ENCODING, known, End::Silence)];
    Server::start(Scripts::from([(Kind::Service, answers.into())]))
}

/// A folder with a kubeconfig and what it names.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("way-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn source(&self, server: &Server, cluster: Value, user: Value) -> Source {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        self.write("kubeconfig", &kubeconfig.to_string());
        let settings = settings(server.address, ENCODING);
        let settings = Settings { kubeconfig: Some(self.0.join("kubeconfig")), master: None, ..settings };
        Source::start(server.clone(), settings, Timing::default())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// It forwards everything to `server`, wherever a client wants to go, and keeps what it was asked.
fn proxy(server: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = asked.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let kept = kept.clone();
            std::thread::spawn(move || drop(forward(client, server, &kept)));
        }
    });
    (address, asked)
}

fn forward(client: TcpStream, server: SocketAddr, kept: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    kept.lock().unwrap().push(head);
    (&client).write_all(b"HTTP/1.1 200 Connection established\r\nvia: test\r\n\r\n")?;
    let upstream = TcpStream::connect(server)?;
    let (mut back, mut to_client) = (upstream.try_clone()?, client);
    std::thread::spawn(move || drop(io::copy(&mut back, &mut to_client)));
    io::copy(&mut reader, &mut &upstream).map(drop)
}

#[test]
fn through_a_proxy_that_wants_a_password() {
    let (folder, server) = (Folder::new("proxy"), server());
    let (proxy, asked) = proxy(server.address);
    let cluster = json!({
        "server": "http://[2001:db8::1]:8080/base/", "proxy-url": format!("http://ann:p%40ss@{proxy}"),
    });
    let source = folder.source(&server, cluster, json!({"token": "abc"}));
    source.await_services("a=10.0.0.1");
    let heads = asked.lock().unwrap().clone();
    for words in ["CONNECT [2001:db8::1]:8080 HTTP/1.1\r\n", "Proxy-Authorization: Basic YW5uOnBAc3M=\r\n"] {
        assert!(heads.iter().all(|head| head.contains(words)), "{heads:#?}");
    }
    assert!(server.all().iter().all(|asked| asked.authorization == "bearer abc"), "the proxy has its own");
}

/// Certificates of one authority: a server's and a client's.
struct Papers {
    authority: String,
    server: (String, String),
    client: (String, String),
}

impl Papers {
    fn new() -> Papers {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let issue = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new([name.to_owned()]).unwrap();
            (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
        };
        Papers { authority: issuer.pem(), server: issue("apiserver.test"), client: issue("client") }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes()).unwrap()).unwrap();
        roots
    }
}

/// TLS in front of `server`, for clients that have a certificate.
fn secured(server: SocketAddr, papers: &Papers) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(papers.roots()), provider.clone());
    let (certificate, key) = &papers.server;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let (listener, acceptor) =
                (tokio::net::TcpListener::from_std(listener).unwrap(), TlsAcceptor::from(Arc::new(config)));
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut client = acceptor.accept(client).await?;
                    let mut server = tokio::net::TcpStream::connect(server).await?;
                    tokio::io::copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
    });
    address
}

#[test]
fn both_sides_prove_who_they_are() {
    let (folder, server, papers) = (Folder::new("tls"), server(), Papers::new());
    let secured = secured(server.address, &papers);
    folder.write("authority.pem", &papers.authority);
    folder.write("client.pem", &papers.client.0);
    folder.write("client.key", &papers.client.1);
    let cluster = json!({
        "server": format!("https://{secured}"), "certificate-authority": "authority.pem",
        "tls-server-name": "apiserver.test",
    });
    let user = json!({"client-certificate": "client.pem", "client-key": "client.key"});
    folder.source(&server, cluster, user).await_services("a=10.0.0.1");
}

#[test]
fn any_certificate_will_do_where_it_is_not_to_be_checked() {
    let (folder, server, papers) = (Folder::new("insecure"), server(), Papers::new());
    let secured = secured(server.address, &papers);
    folder.write("client.pem", &papers.client.0);
    folder.write("client.key", &papers.client.1);
    let cluster = json!({"server": format!("https://{secured}"), "insecure-skip-tls-verify": true});
    let user = json!({"client-certificate": "client.pem", "client-key": "client.key"});
    folder.source(&server, cluster, user).await_services("a=10.0.0.1");
}

/// Of another authority, or of another host.
#[test]
fn a_server_that_cannot_be_trusted_is_named() {
    let (server, papers) = (server(), Papers::new());
    for (name, authority) in [("authority", Papers::new().authority), ("host", papers.authority.clone())] {
        let (folder, secured) = (Folder::new(name), secured(server.address, &papers));
        folder.write("authority.pem", &authority);
        let cluster =
            json!({"server": format!("https://{secured}"), "certificate-authority": "authority.pem"});
        let source = folder.source(&server, cluster, json!({"token": "abc"}));
        log::await_complaint(&[&secured.to_string(), "certificate is not trusted"]);
        assert_eq!(source.now().services, "", "{name}");
    }
    assert!(server.all().is_empty(), "a token went to a stranger");
}
