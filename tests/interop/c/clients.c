/* hiredis against the server at HOST PORT: requests, pipelines, the lock between processes, WATCH, subscriptions. */

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONTENDERS 4
#define TIMES 25
#define PIPELINED 10000
#define STRING(x) #x
#define TEXT(x) STRING(x)
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

static const char RELEASE[] =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])";

static const char *host;
static int port;
static const char *topic;
static char prefix[64];
static int failed;

static void that(const char *claim, int holds, const char *detail) {
    const char *version = VERSION(HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    if (holds) {
        printf("ok   hiredis %s | %s | %s\n", version, topic, claim);
    } else {
        failed++;
        printf("FAIL hiredis %s | %s | %s | got %s\n", version, topic, claim, detail);
    }
    fflush(stdout);
}

static void give_up(const char *why) {
    printf("FAIL hiredis ? | %s | runs to its end | %s\n", topic, why);
    exit(1);
}

/* Every read is bounded: a server that never answers is a failure, not a hang. */
static redisContext *open_connection(void) {
    struct timeval bound = {20, 0};
    redisContext *c = redisConnectWithTimeout(host, port, bound);
    if (c == NULL || c->err) give_up(c ? c->errstr : "no memory");
    redisSetTimeout(c, bound);
    return c;
}

static redisReply *ask(redisContext *c, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = redisvCommand(c, format, arguments);
    va_end(arguments);
    if (reply == NULL) give_up(c->errstr);
    return reply;
}

static long long integer_of(redisReply *reply) {
    long long n = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1000;
    freeReplyObject(reply);
    return n;
}

/* Says whether the reply is this text (a status, a string or an error's beginning), and frees it. */
static int is_text(redisReply *reply, int type, const char *text) {
    int same = reply->type == type && strncmp(reply->str, text, strlen(text)) == 0;
    freeReplyObject(reply);
    return same;
}

static int acquire(redisContext *c, const char *name, const char *token, int ttl_ms) {
    redisReply *reply = ask(c, "SET %s%s %s NX PX %d", prefix, name, token, ttl_ms);
    int held = reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return held;
}

static long long release(redisContext *c, const char *name, const char *token) {
    return integer_of(ask(c, "EVAL %s 1 %s%s %s", RELEASE, prefix, name, token));
}

static void pause_ms(long ms) {
    struct timespec span = {ms / 1000, (ms % 1000) * 1000000L};
    nanosleep(&span, NULL);
}

static void requests(void) {
    topic = "requests";
    redisContext *c = open_connection();
    that("PING", is_text(ask(c, "PING"), REDIS_REPLY_STATUS, "PONG"), "another reply");
    ask(c, "SET %sbin %b EX 60", prefix, "\0\xff\r\n", (size_t)4);
    redisReply *reply = ask(c, "GETDEL %sbin", prefix);
    that("binary values come back whole", reply->len == 4 && memcmp(reply->str, "\0\xff\r\n", 4) == 0, "others");
    freeReplyObject(reply);
    reply = ask(c, "GET %snone", prefix);
    that("a missing key is nil", reply->type == REDIS_REPLY_NIL, "another type");
    freeReplyObject(reply);
    that("an unknown command is an error", is_text(ask(c, "NOSUCHCOMMAND"), REDIS_REPLY_ERROR, "ERR unknown"), "none");
    reply = ask(c, "EVAL %s 0", "return {1, 'two', {3, false}, redis.error_reply('E no')}");
    that("nested replies", reply->type == REDIS_REPLY_ARRAY && reply->elements == 4 &&
             reply->element[2]->element[1]->type == REDIS_REPLY_NIL &&
             reply->element[3]->type == REDIS_REPLY_ERROR, "another shape");
    freeReplyObject(reply);
    redisFree(c);
}

static void pipeline(void) {
    topic = "pipeline";
    redisContext *c = open_connection();
    for (int i = 0; i < PIPELINED; i++) redisAppendCommand(c, "INCR %spipeline", prefix);
    int in_order = 1;
    for (int i = 0; i < PIPELINED; i++) {
        void *reply = NULL;
        if (redisGetReply(c, &reply) != REDIS_OK) give_up(c->errstr);
        in_order &= integer_of(reply) == i + 1;
    }
    that("10,000 requests are answered in order", in_order, "another order");
    freeReplyObject(ask(c, "DEL %spipeline", prefix));
    redisFree(c);
}

static void lock(void) {
    topic = "lock";
    redisContext *c = open_connection();
    that("A acquires it", acquire(c, "lock", "a", 10000), "a refusal");
    that("B is refused", !acquire(c, "lock", "b", 10000), "the lock");
    that("a wrong token releases nothing", release(c, "lock", "b") == 0, "a release");
    that("the right one does", release(c, "lock", "a") == 1, "no release");
    acquire(c, "lock", "dead", 50);
    int tries = 0;
    while (!acquire(c, "lock", "heir", 10000) && tries++ < 1000) pause_ms(2);
    that("a dead holder's lock expires", tries > 5 && tries < 1000, "another time");
    that("its late release spares the next holder", release(c, "lock", "dead") == 0, "a release");
    release(c, "lock", "heir");
    redisFree(c);
}

/* One process: takes the lock and counts carelessly while it holds it. */
static int contend(int worker) {
    redisContext *c = open_connection();
    char token[32];
    snprintf(token, sizeof token, "worker %d", worker);
    for (int i = 0; i < TIMES; i++) {
        int tries = 0;
        while (!acquire(c, "contended", token, 10000)) {
            if (++tries > 10000) return 1;
            pause_ms(2);
        }
        redisReply *reply = ask(c, "GET %scount", prefix);
        int count = reply->type == REDIS_REPLY_STRING ? atoi(reply->str) : 0;
        freeReplyObject(reply);
        pause_ms(1);
        freeReplyObject(ask(c, "SET %scount %d EX 60", prefix, count + 1));
        if (release(c, "contended", token) != 1) return 1;
    }
    redisFree(c);
    return 0;
}

static void contention(void) {
    topic = "contention";
    for (int i = 0; i < CONTENDERS; i++) {
        if (fork() == 0) _exit(contend(i));
    }
    int status, ended_well = 1;
    for (int i = 0; i < CONTENDERS; i++) ended_well &= wait(&status) > 0 && status == 0;
    that("4 processes lock 25 times each", ended_well, "one that failed");
    redisContext *c = open_connection();
    redisReply *reply = ask(c, "GETDEL %scount", prefix);
    that("and no count is lost", reply->str != NULL && atoi(reply->str) == CONTENDERS * TIMES, reply->str);
    freeReplyObject(reply);
    redisFree(c);
}

static void transactions(void) {
    topic = "WATCH/MULTI";
    redisContext *c = open_connection(), *other = open_connection();
    freeReplyObject(ask(c, "SET %sn 1 EX 60", prefix));
    freeReplyObject(ask(c, "WATCH %sn", prefix));
    freeReplyObject(ask(other, "INCR %sn", prefix));
    freeReplyObject(ask(c, "MULTI"));
    that("a command is queued", is_text(ask(c, "INCR %sn", prefix), REDIS_REPLY_STATUS, "QUEUED"), "another reply");
    redisReply *reply = ask(c, "EXEC");
    that("EXEC is nil when the watched key was written", reply->type == REDIS_REPLY_NIL, "another type");
    freeReplyObject(reply);
    freeReplyObject(ask(c, "MULTI"));
    freeReplyObject(ask(c, "INCRBY %sn 5", prefix));
    freeReplyObject(ask(c, "DEL %sn", prefix));
    reply = ask(c, "EXEC");
    that("EXEC answers each command", reply->elements == 2 && reply->element[0]->integer == 7, "another reply");
    freeReplyObject(reply);
    redisFree(c);
    redisFree(other);
}

static void subscription(void) {
    topic = "pub/sub and blocking";
    redisContext *c = open_connection(), *other = open_connection();
    redisReply *reply = ask(c, "SUBSCRIBE %snews", prefix);
    that("SUBSCRIBE is confirmed", reply->elements == 3 && reply->element[2]->integer == 1, "another reply");
    freeReplyObject(reply);
    that("PUBLISH reaches it", integer_of(ask(other, "PUBLISH %snews hello", prefix)) == 1, "none");
    void *message = NULL;
    if (redisGetReply(c, &message) != REDIS_OK) give_up(c->errstr);
    reply = message;
    that("the message is delivered", strcmp(reply->element[2]->str, "hello") == 0, reply->element[2]->str);
    freeReplyObject(reply);
    redisFree(c);
    c = open_connection();
    redisAppendCommand(c, "BRPOP %squeue 5", prefix);
    int written = 0;
    while (!written) redisBufferWrite(c, &written);
    pause_ms(50);
    that("LPUSH counts its element", integer_of(ask(other, "LPUSH %squeue job", prefix)) == 1, "another count");
    if (redisGetReply(c, &message) != REDIS_OK) give_up(c->errstr);
    reply = message;
    that("the waiting BRPOP takes it", reply->elements == 2 && strcmp(reply->element[1]->str, "job") == 0, "another");
    freeReplyObject(reply);
    redisFree(c);
    redisFree(other);
}

int main(int count, char **arguments) {
    host = count == 3 ? arguments[1] : getenv("KHOA_HOST");
    const char *number = count == 3 ? arguments[2] : getenv("KHOA_PORT");
    if (host == NULL || number == NULL) {
        fprintf(stderr, "usage: clients HOST PORT (or set KHOA_HOST and KHOA_PORT)\n");
        return 2;
    }
    port = atoi(number);
    snprintf(prefix, sizeof prefix, "interop:c:%d:", (int)getpid());
    printf("# C clients against %s:%d\n", host, port);
    requests();
    pipeline();
    lock();
    contention();
    transactions();
    subscription();
    if (failed > 0) fprintf(stderr, "%d checks of the C clients failed\n", failed);
    return failed > 0;
}
