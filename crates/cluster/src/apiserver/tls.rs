//! Whom to trust and how to prove who we are, as a kubeconfig or the pod's service account has it, in rustls' terms.

use std::io::BufReader;
use std::sync::Arc;

use hyper::Uri;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::kubeconfig::User;
use super::target::{Target, load};
use super::wording::one_line;

/// A certificate with what it was signed by, and its key.
type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

pub(super) fn client_config(target: &Target) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(one_line)?;
    let builder = match target.is_insecure {
        true => builder.dangerous().with_custom_certificate_verifier(Arc::new(Trusting(provider))),
        false => builder.with_root_certificates(roots(target)?),
    };
    match identity(&target.user)? {
        Some((chain, key)) => builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| format!("the client key of the kubeconfig cannot be used: {}", one_line(error))),
        None => Ok(builder.with_no_client_auth()),
    }
}

/// Those of the system if none are named, as other clients do it.
fn roots(target: &Target) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if let Some(certificates) = &target.roots {
        for certificate in certificates {
            roots.add(certificate.clone()).map_err(|error| {
                format!("a certificate of the certificate-authority cannot be used: {}", one_line(error))
            })?;
        }
        return Ok(roots);
    }
    let is_https = |url: &Uri| url.scheme_str() == Some("https");
    if is_https(&target.server) || target.proxy.as_ref().is_some_and(is_https) {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(
                "there is no certificate-authority to trust, neither in a kubeconfig nor on this system"
                    .to_owned(),
            );
        }
    }
    Ok(roots)
}

fn identity(user: &User) -> Result<Option<Identity>, String> {
    let certificate = load(
        user.client_certificate_data.as_deref(),
        user.client_certificate.as_deref(),
        "client-certificate",
    )?;
    let key = load(user.client_key_data.as_deref(), user.client_key.as_deref(), "client-key")?;
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err("the user of the kubeconfig has a client-certificate and no client-key".to_owned())
        }
        (None, Some(_)) => {
            Err("the user of the kubeconfig has a client-key and no client-certificate".to_owned())
        }
        (Some(certificate), Some(key)) => read_identity(&certificate, &key).map(Some),
    }
}

/// Either may stand in the file of the other.
fn read_identity(certificate: &[u8], key: &[u8]) -> Result<Identity, String> {
    let mut chain = Vec::new();
    let mut found = None;
    for text in [key, certificate] {
        let mut text = BufReader::new(text);
        while let Some((kind, der)) = pem::from_buf(&mut text).map_err(|error| {
            format!("the client certificate or key of the kubeconfig: {}", one_line(error))
        })? {
            match kind {
                SectionKind::Certificate => chain.push(CertificateDer::from(der)),
                SectionKind::PrivateKey => found = Some(PrivateKeyDer::Pkcs8(der.into())),
                SectionKind::RsaPrivateKey => found = Some(PrivateKeyDer::Pkcs1(der.into())),
                SectionKind::EcPrivateKey => found = Some(PrivateKeyDer::Sec1(der.into())),
                // Parameters of a curve, which openssl writes in front of a key, and the like.
                _ => {}
            }
        }
    }
    let key = found.ok_or("there is no key in the client-key of the kubeconfig")?;
    if chain.is_empty() {
        return Err("there is no certificate in the client-certificate of the kubeconfig".to_owned());
    }
    Ok((chain, key))
}

/// `insecure-skip-tls-verify`: any server is taken for the one that is meant.
#[derive(Debug)]
struct Trusting(Arc<CryptoProvider>);

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
