//! Who may speak with the control plane: certificates, service-account keys, and users with tokens.

use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use crate::scratch::Scratch;

/// A user with a token.
#[derive(Clone, Debug)]
pub struct User {
    pub name: String,
    pub groups: Vec<String>,
}

impl User {
    pub fn new(name: &str, groups: &[&str]) -> User {
        User { name: name.to_owned(), groups: groups.iter().map(|group| (*group).to_owned()).collect() }
    }

    /// May do everything.
    pub const ADMIN: &'static str = "admin";
    /// Whom the apiserver's own roles give the rights of a kube-proxy.
    pub const PROXY: &'static str = "system:kube-proxy";

    /// Tokens need only differ: only the test reaches the server.
    pub fn token(name: &str) -> String {
        format!("token-of-{}", name.replace(':', "-"))
    }

    fn line(&self) -> String {
        format!("{},{},{},\"{}\"\n", User::token(&self.name), self.name, self.name, self.groups.join(","))
    }
}

/// Files, as the apiserver's flags name them.
#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    /// Signs the server's certificate, and clients'.
    pub(crate) authority: PathBuf,
    pub(crate) authority_pem: String,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// By which a client is [`User::PROXY`].
    pub(crate) client_certificate: PathBuf,
    pub(crate) client_key: PathBuf,
    pub(crate) accounts_public: PathBuf,
    pub(crate) accounts_private: PathBuf,
    pub(crate) tokens: PathBuf,
}

impl Credentials {
    pub(crate) fn make(scratch: &Scratch, users: &[User], names: &[String]) -> Result<Credentials, String> {
        let authority = authority().map_err(|e| format!("making the certificate authority: {e}"))?;
        let (certificate, key) =
            server(&authority, names).map_err(|e| format!("making a certificate: {e}"))?;
        let client = signed(&authority, User::PROXY, Vec::new(), ExtendedKeyUsagePurpose::ClientAuth)
            .map_err(|e| format!("making a client's certificate: {e}"))?;
        let accounts = KeyPair::generate().map_err(|e| format!("making the service-account key: {e}"))?;
        let tokens: String = users.iter().map(User::line).collect();
        Ok(Credentials {
            authority: scratch.write("ca.crt", &authority.pem())?,
            authority_pem: authority.pem(),
            certificate: scratch.write("apiserver.crt", &certificate)?,
            key: scratch.write("apiserver.key", &key)?,
            client_certificate: scratch.write("client.crt", &client.0)?,
            client_key: scratch.write("client.key", &client.1)?,
            accounts_public: scratch.write("accounts.pub", &accounts.public_key_pem())?,
            accounts_private: scratch.write("accounts.key", &accounts.serialize_pem())?,
            tokens: scratch.write("tokens.csv", &tokens)?,
        })
    }
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::new([])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name.push(DnType::CommonName, "pointsman-test-authority");
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

/// Certificate and key.
fn server(
    authority: &CertifiedIssuer<'_, KeyPair>,
    more: &[String],
) -> Result<(String, String), rcgen::Error> {
    let mut names = ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned).to_vec();
    names.extend_from_slice(more);
    signed(authority, "kube-apiserver", names, ExtendedKeyUsagePurpose::ServerAuth)
}

fn signed(
    authority: &CertifiedIssuer<'_, KeyPair>,
    who: &str,
    names: Vec<String>,
    purpose: ExtendedKeyUsagePurpose,
) -> Result<(String, String), rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, who);
    params.extended_key_usages = vec![purpose];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, authority)?;
    Ok((certificate.pem(), key.serialize_pem()))
}
