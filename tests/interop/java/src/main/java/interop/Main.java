package interop;

import java.util.ArrayList;
import java.util.List;

/** Runs real Java clients, with their default options, against the server at HOST PORT. */
public final class Main {
    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0 && arguments[0].equals("contend")) {
            RedissonStories.contend(arguments[1], arguments[2], Integer.parseInt(arguments[3]));
            System.exit(0);
        }
        String host = arguments.length == 2 ? arguments[0] : System.getenv("KHOA_HOST");
        String port = arguments.length == 2 ? arguments[1] : System.getenv("KHOA_PORT");
        if (host == null || port == null) {
            System.err.println("usage: Main HOST PORT (or set KHOA_HOST and KHOA_PORT)");
            System.exit(2);
        }
        System.out.println("# Java clients against " + host + ":" + port);
        Server server = new Server(host, Integer.parseInt(port));
        List<Scenario> scenarios = new ArrayList<>();
        scenarios.addAll(JedisStories.all(server));
        scenarios.addAll(LettuceStories.all(server));
        scenarios.addAll(RedissonStories.all(server));
        int failed = 0;
        for (Scenario scenario : scenarios) {
            failed += scenario.play();
        }
        if (failed > 0) {
            System.err.println(failed + " checks of the Java clients failed");
        }
        System.exit(failed > 0 ? 1 : 0);
    }

    private Main() {}
}
