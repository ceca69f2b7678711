//! The first article: exclusion, safe release, contention, and the release that it warns of.

use khoa_server::Server;

#[path = "../../client/examples/contention.rs"]
mod contention;

use contention::{Exclusion, LateRelease, SafeRelease};

#[tokio::test]
async fn a_second_client_gets_the_lock_only_after_the_first_released_it() {
    let server = Server::start().unwrap();
    let seen = contention::exclusion(&server.url()).await.unwrap();
    let wanted = Exclusion {
        first: true,
        second_meanwhile: false,
        released: 1,
        second_afterwards: true,
    };
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn a_wrong_token_releases_nothing_and_the_right_one_does() {
    let server = Server::start().unwrap();
    let seen = contention::safe_release(&server.url()).await.unwrap();
    assert_eq!(
        seen,
        SafeRelease {
            wrong_token: 0,
            still_held: true,
            right_token: 1
        }
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_tasks_acquire_one_lock_fifty_times_and_never_two_at_once() {
    let server = Server::start().unwrap();
    let seen = contention::contention(&server.url(), 50).await.unwrap();
    assert_eq!((seen.acquisitions, seen.peak_inside), (50, 1));
}

#[tokio::test]
async fn a_release_by_get_and_del_deletes_the_lock_of_another() {
    let server = Server::start().unwrap();
    let seen = contention::late_get_then_del(&server).await.unwrap();
    let wanted = LateRelease {
        answer: 1,
        second_still_holds: false,
        third_got_in: true,
    };
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn a_release_by_script_spares_the_lock_of_another() {
    let server = Server::start().unwrap();
    let seen = contention::late_script(&server).await.unwrap();
    let wanted = LateRelease {
        answer: 0,
        second_still_holds: true,
        third_got_in: false,
    };
    assert_eq!(seen, wanted);
}
