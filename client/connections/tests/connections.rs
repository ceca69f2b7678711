//! Everything that the library offers, over connections that only other crates make.

#[path = "../../tests/it/everything.rs"]
mod everything;

use std::net::SocketAddr;
use std::sync::Arc;

use deadpool_redis::{Config, Runtime};
#[cfg(feature = "rustls")]
use khoa::redis::cluster::ClusterClient;
use khoa::redis::{Client, ClientTlsConfig, TlsCertificates};
use khoa::{Error, Manager, ManagerBuilder};
use khoa_server::Server;
use rcgen::{CertifiedKey, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use everything::{Can, everything_works, waiters_are_woken_by_push};

#[tokio::test]
async fn everything_works_over_a_pool_of_bb8() {
    let server = Server::start().unwrap();
    let maker = bb8_redis::RedisConnectionManager::new(server.url()).unwrap();
    let pool = bb8_redis::bb8::Pool::builder().max_size(3);
    let pool = pool.build(maker).await.unwrap();
    let open = |settings: ManagerBuilder| {
        let pool = pool.clone();
        settings.pool(move || {
            let pool = pool.clone();
            async move { pool.get_owned().await }
        })
    };
    everything_works(&open(Manager::builder()), Can::OnlyAsk).await;
    let client = Client::open(server.url()).unwrap();
    waiters_are_woken_by_push(|settings| open(settings.dedicated(client.clone()))).await;
}

#[tokio::test]
async fn everything_works_over_a_pool_of_deadpool() {
    let server = Server::start().unwrap();
    let pool = Config::from_url(server.url()).create_pool(Some(Runtime::Tokio1));
    let pool = pool.unwrap();
    let open = |settings: ManagerBuilder| {
        let pool = pool.clone();
        settings.pool(move || {
            let pool = pool.clone();
            async move { pool.get().await }
        })
    };
    everything_works(&open(Manager::builder()), Can::OnlyAsk).await;
    let client = Client::open(server.url()).unwrap();
    waiters_are_woken_by_push(|settings| open(settings.dedicated(client.clone()))).await;
}

/// A server that is reached by TLS alone, with a certificate that nobody else vouches for.
struct Encrypted {
    server: Server,
    url: String,
    own: CertifiedKey<KeyPair>,
    /// What clients must show, where they must show something.
    of_clients: Option<CertifiedKey<KeyPair>>,
}

impl Encrypted {
    async fn start() -> Self {
        Self::before(Server::start().unwrap(), listener().await, None)
    }

    async fn for_those_with_a_certificate() -> Self {
        let of_clients = rcgen::generate_simple_self_signed(["client".to_owned()]).unwrap();
        Self::before(Server::start().unwrap(), listener().await, Some(of_clients))
    }

    /// A cluster of one node, which announces the address at which TLS is spoken.
    #[cfg(feature = "rustls")]
    async fn cluster() -> Self {
        let listener = listener().await;
        let port = listener.local_addr().unwrap().port().to_string();
        let server = Server::builder()
            .setting("cluster-enabled", "yes")
            .setting("cluster-announce-port", &port)
            .setting("cluster-announce-hostname", "localhost")
            .setting("cluster-preferred-endpoint-type", "hostname");
        Self::before(server.start().unwrap(), listener, None)
    }

    fn before(
        server: Server,
        listener: TcpListener,
        of_clients: Option<CertifiedKey<KeyPair>>,
    ) -> Self {
        // The application chooses who computes for rustls; here it is the test.
        let _ = ring::default_provider().install_default();
        let url = format!(
            "rediss://localhost:{}",
            listener.local_addr().unwrap().port()
        );
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = own.signing_key.serialize_der().try_into().unwrap();
        let config = match &of_clients {
            None => ServerConfig::builder().with_no_client_auth(),
            Some(known) => {
                let mut roots = RootCertStore::empty();
                roots.add(known.cert.der().clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
                ServerConfig::builder().with_client_cert_verifier(verifier.unwrap())
            }
        };
        let config = config.with_single_cert(vec![own.cert.der().clone()], key);
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        tokio::spawn(decrypt(listener, acceptor, server.addr()));
        Self {
            server,
            url,
            own,
            of_clients,
        }
    }

    fn certificates(&self) -> TlsCertificates {
        let client_tls = self.of_clients.as_ref().map(|known| ClientTlsConfig {
            client_cert: known.cert.pem().into_bytes(),
            client_key: known.signing_key.serialize_pem().into_bytes(),
        });
        TlsCertificates {
            client_tls,
            root_cert: Some(self.own.cert.pem().into_bytes()),
        }
    }

    fn client(&self) -> Client {
        Client::build_with_tls(self.url.as_str(), self.certificates()).unwrap()
    }
}

async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// Passes on what comes encrypted to the server behind.
async fn decrypt(listener: TcpListener, acceptor: TlsAcceptor, behind: SocketAddr) {
    while let Ok((stream, _)) = listener.accept().await {
        let handshake = acceptor.accept(stream);
        tokio::spawn(async move {
            let mut plain = TcpStream::connect(behind).await.unwrap();
            // A client that does not trust the certificate leaves in the middle of it.
            if let Ok(mut encrypted) = handshake.await {
                let _ = tokio::io::copy_bidirectional(&mut encrypted, &mut plain).await;
            }
        });
    }
}

#[tokio::test]
async fn everything_works_over_tls() {
    let encrypted = Encrypted::start().await;
    let open = |settings: ManagerBuilder| settings.client(encrypted.client()).unwrap();
    everything_works(&open(Manager::builder()), Can::Listen).await;
    waiters_are_woken_by_push(open).await;
}

#[tokio::test]
async fn a_server_that_cannot_prove_its_name_over_tls_is_not_asked_for_locks() {
    let encrypted = Encrypted::start().await;
    let stranger = Manager::open(encrypted.url.as_str()).unwrap();
    let refused = stranger.lock("a").try_acquire().await.unwrap_err();
    assert!(matches!(refused, Error::Backend { .. }), "{refused}");
    assert_eq!(encrypted.server.calls_of("evalsha"), 0);
}

#[tokio::test]
async fn a_client_shows_its_own_certificate_over_tls() {
    let encrypted = Encrypted::for_those_with_a_certificate().await;
    let open = |settings: ManagerBuilder| settings.client(encrypted.client()).unwrap();
    everything_works(&open(Manager::builder()), Can::Listen).await;
    waiters_are_woken_by_push(open).await;
}

// The `redis` crate gives a cluster's connections certificates over rustls only.
#[cfg(feature = "rustls")]
#[tokio::test]
async fn everything_works_in_a_cluster_over_tls() {
    let encrypted = Encrypted::cluster().await;
    let open = |settings: ManagerBuilder| {
        let nodes =
            ClusterClient::builder([encrypted.url.as_str()]).certs(encrypted.certificates());
        settings
            .dedicated(encrypted.client())
            .cluster(nodes)
            .unwrap()
    };
    everything_works(&open(Manager::builder()), Can::Listen).await;
    waiters_are_woken_by_push(open).await;
}
