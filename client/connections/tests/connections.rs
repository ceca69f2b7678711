//! Everything that the library offers, over connections that only other crates make.

#[path = "../../tests/it/everything.rs"]
mod everything;

use deadpool_redis::{Config, Runtime};
use khoa::redis::{Client, TlsCertificates};
use khoa::{Error, Manager, ManagerBuilder};
use khoa_server::Server;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

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
    certificate: String,
}

impl Encrypted {
    async fn start() -> Self {
        // The application chooses who computes for rustls; here it is the test.
        let _ = ring::default_provider().install_default();
        let server = Server::start().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("rediss://localhost:{}", listener.local_addr().unwrap().port());
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = own.signing_key.serialize_der().try_into().unwrap();
        let config = ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![own.cert.der().clone()], key);
        let acceptor = TlsAcceptor::from(std::sync::Arc::new(config.unwrap()));
        let behind = server.addr();
        tokio::spawn(async move {
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
        });
        let certificate = own.cert.pem();
        Self { server, url, certificate }
    }

    fn client(&self) -> Client {
        let certificates = TlsCertificates {
            client_tls: None,
            root_cert: Some(self.certificate.clone().into_bytes()),
        };
        Client::build_with_tls(self.url.as_str(), certificates).unwrap()
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
