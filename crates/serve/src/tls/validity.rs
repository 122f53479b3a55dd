//! How long our own certificate holds: a server whose certificate has expired serves nobody, and nobody else would say why.
//!
//! Nothing here reads a certificate. The library that clients' certificates are checked with is asked about ours, now and at
//! the end of days, and its refusal says when the certificate ends.

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};
use std::time::Duration;

/// How long before its end a certificate is spoken of: time enough to get another.
const SOON_SECS: u64 = 14 * 86_400;
/// Long after the end of any certificate: the last second of the year 9999, which is what they say that never end.
const END_OF_DAYS: u64 = 253_402_300_799;

/// When a certificate ends, and what was said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    /// Seconds since 1970; none where it has no end that the library would say.
    end: Option<u64>,
    said: Said,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Said {
    Nothing,
    Soon,
    Over,
}

/// What the library has against a certificate at that time, as far as it is about time.
fn refusal(certificate: &CertificateDer<'_>, at: u64) -> Option<CertificateError> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
    let at = UnixTime::since_unix_epoch(Duration::from_secs(at));
    // Nobody is trusted, but its time is looked at before that.
    let nobody = RootCertStore::empty();
    match verify_server_cert_signed_by_trust_anchor(&parsed, &nobody, &[], at, algorithms.all) {
        Err(Error::InvalidCertificate(why)) => Some(why),
        _ => None,
    }
}

impl Validity {
    /// Of a chain, at that time: of the certificate in it that ends first.
    ///
    /// # Errors
    /// When one of them has ended, or has not begun.
    pub(super) fn of(chain: &[CertificateDer<'_>], now: u64) -> Result<Self, String> {
        let end = |certificate: &CertificateDer<'_>| match refusal(certificate, END_OF_DAYS) {
            Some(CertificateError::ExpiredContext { not_after, .. }) => Some(not_after.as_secs()),
            _ => None,
        };
        for certificate in chain {
            match refusal(certificate, now) {
                Some(CertificateError::ExpiredContext { not_after, .. }) => {
                    let days = now.saturating_sub(not_after.as_secs()) / 86_400;
                    return Err(format!(
                        "it has expired, {days} days ago: clients would refuse it; get a new one"
                    ));
                }
                Some(CertificateError::NotValidYetContext { not_before, .. }) => {
                    let days = not_before.as_secs().saturating_sub(now).div_ceil(86_400);
                    let why = "is the clock of this machine right?";
                    return Err(format!("it is valid only in {days} days: clients would refuse it; {why}"));
                }
                _ => {}
            }
        }
        Ok(Self { end: chain.iter().filter_map(end).min(), said: Said::Nothing })
    }

    /// What is to be said at that time, if anything: once when it will end soon, and once when it has.
    pub(crate) fn look(&mut self, now: u64) -> Option<String> {
        let left = self.end?.saturating_sub(now);
        let (said, what) = match left {
            0 => (Said::Over, "has expired: clients refuse it".to_owned()),
            1..=SOON_SECS => (Said::Soon, format!("expires in {} days", left.div_ceil(86_400))),
            _ => return None,
        };
        (said > std::mem::replace(&mut self.said, said))
            .then(|| format!("the certificate of --tls-cert {what}; get a new one and start the server anew"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    #[test]
    fn a_certificate_says_when_it_ends_and_one_that_has_ended_or_not_begun_is_refused() {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        let own = params.self_signed(&KeyPair::generate().expect("a key")).expect("signed");
        let chain = [own.der().clone()];
        let (begin, end) = (1_577_836_800, 1_609_459_200);
        let mut validity = Validity::of(&chain, begin + 1).expect("it is valid");
        assert_eq!(validity.end, Some(end));
        assert_eq!(validity.look(begin + 1), None);
        assert!(validity.look(end - SOON_SECS).expect("soon").contains("expires in 14 days"));
        assert_eq!(validity.look(end - 60), None, "it was said");
        assert!(validity.look(end + 1).expect("over").contains("has expired"));
        assert_eq!(validity.look(end + 2), None);
        let said = Validity::of(&chain, end + 3 * 86_400).expect_err("over");
        assert!(said.contains("it has expired, 3 days ago"), "{said}");
        let said = Validity::of(&chain, begin - 86_400).expect_err("early");
        assert!(said.contains("valid only in 1 days"), "{said}");
    }
}
