package interop;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** One story played with one client library, in a thread of its own so that a hang is a failure. */
record Scenario(String client, Class<?> library, String topic, Story story) {
    private static final int DEADLINE_SECONDS = 60;

    interface Story {
        void tell(Probe probe) throws Exception;
    }

    /** Runs the story and tells how many of its checks failed. */
    int play() {
        Probe probe = new Probe(client + " " + version() + " | " + topic);
        ExecutorService stage = Executors.newSingleThreadExecutor();
        try {
            stage.submit(() -> {
                story.tell(probe);
                return null;
            }).get(DEADLINE_SECONDS, TimeUnit.SECONDS);
        } catch (Exception error) {
            probe.that("runs to its end", false, String.valueOf(error.getCause() == null ? error : error.getCause()));
        } finally {
            stage.shutdownNow();
        }
        return probe.failures();
    }

    /** The version that is in the name of the library's jar, where a release needs no suffix. */
    private String version() {
        String jar = library.getProtectionDomain().getCodeSource().getLocation().getPath();
        return jar.replaceFirst(".*-([0-9][^/]*)\\.jar$", "$1").replace(".RELEASE", "");
    }
}
