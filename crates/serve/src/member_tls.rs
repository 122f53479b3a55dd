//! TLS towards members that are exports of other machines: whom we trust, who we are, and what a refusal means.
//!
//! The trust is a file of authorities that the user names, and nothing else: there is no list that is built in, none of the
//! system is taken unasked, and no certificate is accepted without one. The name on it must be that of the address. There are
//! no tickets and no early data, so that a connection that is made again is checked as the first was.

use crate::error::ServeError;
use crate::options::MemberTlsOptions;
use crate::tls::{authorities, certificates, private_key, unusable};
use rustls::client::Resumption;
use rustls::{AlertDescription, CertificateError, ClientConfig, Error as TlsError, PeerIncompatible};
use std::io;
use std::sync::Arc;

/// Whether the files go together; they are not read.
pub(crate) fn check(options: &MemberTlsOptions) -> Result<(), ServeError> {
    let refuse = |option, why: &str| Err(ServeError::option(option, why));
    match (&options.ca, &options.cert, &options.key) {
        (None, None, None) | (Some(_), None, None) | (Some(_), Some(_), Some(_)) => Ok(()),
        (None, ..) => refuse(
            "--member-tls-cert",
            "a certificate of ours is of no use without those of the servers: give --member-tls-ca FILE too",
        ),
        (_, Some(_), None) => {
            refuse("--member-tls-cert", "its private key is missing: give --member-tls-key FILE")
        }
        (_, None, Some(_)) => refuse(
            "--member-tls-key",
            "the certificate is missing that it is of: give --member-tls-cert FILE",
        ),
    }
}

/// Reads the files; nothing without authorities.
pub(crate) fn config(options: &MemberTlsOptions) -> Result<Option<Arc<ClientConfig>>, ServeError> {
    check(options)?;
    let Some(ca) = &options.ca else { return Ok(None) };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|problem| ServeError::option("--member-tls-ca", problem))?
        .with_root_certificates(authorities(ca, "--member-tls-ca")?);
    let mut config = match (&options.cert, &options.key) {
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(
                certificates(cert, "--member-tls-cert")?,
                private_key(key, "--member-tls-key")?,
            )
            .map_err(|problem| unusable(cert, "--member-tls-cert, --member-tls-key", &problem))?,
        _ => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    Ok(Some(Arc::new(config)))
}

/// What a failure of TLS means and what to do; `None` for one that is none of TLS.
pub(crate) fn explain(problem: &io::Error) -> Option<String> {
    let tls = problem.get_ref()?.downcast_ref::<TlsError>()?;
    Some(match tls {
        TlsError::InvalidCertificate(why) => certificate(why),
        TlsError::AlertReceived(alert) => refused(*alert),
        TlsError::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13) => {
            "its server has neither TLS 1.2 nor 1.3: bring it up to date".into()
        }
        TlsError::InvalidMessage(_) => format!("what answers is no TLS ({tls})"),
        other => format!("TLS failed: {other}"),
    })
}

fn certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer => {
            "the certificate of its server is not of the authorities in --member-tls-ca: give the one that made it".into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
            "the certificate of its server is of another name ({why}): use that name in the address, or add \
             ?tls-hostname=NAME"
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the certificate of its server has expired ({why}): get it renewed, or set this machine's clock")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("the certificate of its server is not valid yet ({why}): is this machine's clock right?")
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            format!("the certificate of its server is not made for a server ({why}): give it one with serverAuth")
        }
        other => format!("the certificate of its server is not accepted: {other}"),
    }
}

fn refused(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired | AlertDescription::NoCertificate => {
            "its server wants a certificate of ours: give --member-tls-cert and --member-tls-key".into()
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnknownCA
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied => format!(
            "its server does not accept our certificate ({alert:?}): give one that its authority made \
             (--member-tls-cert, --member-tls-key)"
        ),
        other => format!("its server broke TLS off ({other:?}): its log says why"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(ca: Option<&str>, cert: Option<&str>, key: Option<&str>) -> String {
        let options =
            MemberTlsOptions { ca: ca.map(Into::into), cert: cert.map(Into::into), key: key.map(Into::into) };
        config(&options).expect_err("refused").to_string()
    }

    #[test]
    fn files_that_are_missing_or_alone_are_named_with_their_option() {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("made");
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), made.cert.pem()).expect("written");
        let ca = file.path().to_str();
        assert!(why(None, Some("c"), Some("k")).contains("--member-tls-ca FILE"));
        assert!(why(Some("/nowhere/ca"), None, None).starts_with("--member-tls-ca: /nowhere/ca"));
        assert!(why(ca, ca, None).contains("--member-tls-key FILE"));
        assert!(why(ca, None, ca).contains("--member-tls-cert FILE"));
        assert!(why(ca, ca, Some("/nowhere/key")).starts_with("--member-tls-key: /nowhere/key"));
        assert!(why(ca, Some("/nowhere/cert"), ca).starts_with("--member-tls-cert: /nowhere/cert"));
        assert!(config(&MemberTlsOptions::default()).expect("nothing is asked for").is_none());
    }

    #[test]
    fn a_failure_of_the_network_is_none_of_tls() {
        assert_eq!(explain(&io::ErrorKind::ConnectionRefused.into()), None);
        let alert = TlsError::AlertReceived(AlertDescription::UnknownCA);
        let said = explain(&io::Error::new(io::ErrorKind::InvalidData, alert)).expect("of TLS");
        assert!(said.contains("--member-tls-cert"), "{said}");
    }
}
