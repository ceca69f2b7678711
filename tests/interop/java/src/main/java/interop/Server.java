package interop;

/** Where the server under test listens. */
record Server(String host, int port) {
    String url() {
        return "redis://" + host + ":" + port;
    }
}
