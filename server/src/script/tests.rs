//! Scripts over a host that keeps a few strings.

use std::collections::HashMap;

use super::*;

/// Text of a reply, in the notation of the tests: `+ok`, `-error`, `:1`, `$bulk`, `_`, `[a b]`.
#[derive(Default)]
struct Text {
    out: String,
    open: Vec<(usize, &'static str)>,
    resp3: bool,
}

impl Text {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        while let Some((left, close)) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                self.out.push(' ');
                return;
            }
            self.out.push_str(close);
            self.open.pop();
        }
    }

    fn begin(&mut self, open: &str, close: &'static str, len: usize) {
        if len == 0 {
            return self.put(&format!("{open}{close}"));
        }
        self.out.push_str(open);
        self.open.push((len, close));
    }
}

impl Reply for Text {
    fn protocol(&self) -> Protocol {
        if self.resp3 {
            Protocol::Resp3
        } else {
            Protocol::Resp2
        }
    }
    fn simple(&mut self, text: &str) {
        self.put(&format!("+{text}"));
    }
    fn error(&mut self, error: &Error) {
        self.put(&format!("-{}", String::from_utf8_lossy(error.as_bytes())));
    }
    fn integer(&mut self, value: i64) {
        self.put(&format!(":{value}"));
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.put(&format!("${}", bytes.escape_ascii()));
    }
    fn null(&mut self) {
        self.put("_");
    }
    fn null_array(&mut self) {
        self.put("_");
    }
    fn array(&mut self, len: usize) {
        self.begin("[", "]", len);
    }
    fn map(&mut self, pairs: usize) {
        self.begin("{", "}", pairs * 2);
    }
    fn set(&mut self, len: usize) {
        self.begin("<", ">", len);
    }
    fn double(&mut self, value: f64) {
        self.put(&format!(",{value}"));
    }
    fn boolean(&mut self, value: bool) {
        self.put(&format!("#{value}"));
    }
    fn big_number(&mut self, digits: &[u8]) {
        self.put(&format!("({}", digits.escape_ascii()));
    }
    fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        self.put(&format!(
            "={}:{}",
            format.escape_ascii(),
            text.escape_ascii()
        ));
    }
    fn mark(&self) -> usize {
        self.out.len()
    }
    fn rewind(&mut self, mark: usize) {
        self.out.truncate(mark);
        if mark == 0 {
            self.open.clear();
        }
    }
}

struct FakeHost {
    keys: HashMap<Vec<u8>, Vec<u8>>,
    control: Arc<Control>,
    became_busy: usize,
    kill_when_busy: bool,
    ticks: usize,
}

impl Host for FakeHost {
    fn call(&mut self, args: &[&[u8]], reply: &mut dyn Reply) {
        match (args[0].to_ascii_lowercase().as_slice(), &args[1..]) {
            (b"get", [key]) => match self.keys.get(*key) {
                Some(value) => reply.bulk(value),
                None => reply.null(),
            },
            (b"set", [key, value]) => {
                self.control.note_write();
                self.keys.insert(key.to_vec(), value.to_vec());
                reply.ok();
            }
            (b"del", [key]) => reply.integer(i64::from(self.keys.remove(*key).is_some())),
            (b"echo", [text]) => reply.bulk(text),
            (b"fail", _) => reply.error(&Error::WRONG_TYPE),
            (b"half", _) => {
                let mark = reply.mark();
                reply.array(2);
                reply.integer(1);
                reply.rewind(mark);
                reply.error(&Error::SYNTAX);
            }
            (b"types", _) => {
                reply.array(7);
                reply.map(2);
                reply.bulk(b"a");
                reply.array(0);
                reply.bulk(b"b");
                reply.set(1);
                reply.bulk(b"x");
                reply.double(1.5);
                reply.boolean(true);
                reply.big_number(b"123");
                reply.verbatim(b"txt", b"v");
                reply.error(&Error::SYNTAX);
                reply.integer(9);
            }
            (b"tick", _) => {
                self.ticks += 1;
                reply.ok();
            }
            // Whoever asks for the script's end does it now, and the hook does not know yet.
            (b"doom", _) => {
                let asked = self.control.kill(Killer::Shutdown);
                assert_eq!(asked, Ok(()), "a script runs");
                reply.ok();
            }
            (b"panic", _) => panic!("a handler's fault"),
            _ => reply.error(&Error::text("ERR Unknown command called from script")),
        }
    }

    fn log(&mut self, _level: LogLevel, _message: &[u8]) {}

    fn acl_check(&mut self, args: &[&[u8]]) -> Option<bool> {
        Some(args[0] != b"flushall")
    }

    fn on_busy(&mut self) {
        self.became_busy += 1;
        if self.kill_when_busy {
            self.control
                .kill(Killer::Script)
                .expect("a busy script that wrote nothing ends");
        }
    }
}

struct Bench {
    scripts: Scripts,
    host: FakeHost,
}

impl Bench {
    fn new() -> Bench {
        let control = Arc::new(Control::default());
        let host = FakeHost {
            keys: HashMap::new(),
            control: Arc::clone(&control),
            became_busy: 0,
            kill_when_busy: false,
            ticks: 0,
        };
        Bench {
            scripts: Scripts::new(control),
            host,
        }
    }

    fn eval_with(&mut self, source: &str, keys: &[&str], argv: &[&str], resp3: bool) -> String {
        let mut text = Text {
            resp3,
            ..Text::default()
        };
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        let argv: Vec<&[u8]> = argv.iter().map(|arg| arg.as_bytes()).collect();
        match self.scripts.compile(source.as_bytes()) {
            Ok(id) => self
                .scripts
                .run(id, &mut self.host, &keys, &argv, &mut text),
            Err(error) => text.error(&error),
        }
        text.out
    }

    fn eval(&mut self, source: &str) -> String {
        self.eval_with(source, &[], &[], false)
    }
}

#[track_caller]
fn check(source: &str, expected: &str) {
    assert_eq!(Bench::new().eval(source), expected, "{source}");
}

/// The error of a script on its first line.
#[track_caller]
fn check_error(source: &str, expected: &str) {
    check(source, &format!("-{expected} script: on @user_script:1."));
}

#[test]
fn a_release_deletes_only_its_own_lock() {
    let mut bench = Bench::new();
    let unlock = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) \
                  else return 0 end";
    bench.host.keys.insert(b"lock".to_vec(), b"mine".to_vec());
    assert_eq!(bench.eval_with(unlock, &["lock"], &["other"], false), ":0");
    assert_eq!(bench.eval_with(unlock, &["lock"], &["mine"], false), ":1");
    assert_eq!(bench.eval_with(unlock, &["lock"], &["mine"], false), ":0");
}

#[test]
fn values_become_replies_as_the_reference_has_it() {
    check("return 3.99", ":3");
    check("return {1,2,nil,4}", "[:1 :2]");
    check("return {1,{2,'x',true,false},3.5}", "[:1 [:2 $x :1 _] :3]");
    check("return {ok='fine'}", "+fine");
    check("return {err='MY fault'}", "-MY fault");
    check("return {double=3.5}", ",3.5");
    check("return {map={a=1}}", "{$a :1}");
    check("return {set={a=true}}", "<$a>");
    check("return {big_number='12'}", "(12");
    check(
        "return {verbatim_string={format='txt',string='v'}}",
        "=txt:v",
    );
    check("return {err=1}", "[]");
    check("return _G", "[]");
    check("return redis.call", "_");
    check("return 0/0", ":-9223372036854775808");
    check("redis.setresp(3) return {true,false}", "[#true #false]");
}

#[test]
fn replies_become_values_as_the_reference_has_it() {
    check("return type(redis.call('get','none'))", "$boolean");
    check(
        "redis.setresp(3) return type(redis.call('get','none'))",
        "$nil",
    );
    check("return redis.call('set','k','v').ok", "$OK");
    check(
        "local t=redis.call('types') return {#t,#t[1],t[1][1],#t[1][4],t[2],t[5]}",
        "[:7 :4 $a :1 $1.5 $v]",
    );
    check(
        "redis.setresp(3) local t=redis.call('types') \
           return {#t[1].map.a,t[1].map.b.set.x,t[2].double*2,t[3],t[4].big_number,t[5].verbatim_string.string,t[6].err}",
        "[:0 #true :3 #true $123 $v $ERR syntax error]",
    );
    check("return redis.pcall('half').err", "$ERR syntax error");
}

#[test]
fn errors_say_where_they_were_raised() {
    check_error("error('x')", "ERR user_script:1: x");
    check_error("error({err='FOO bar'})", "FOO bar");
    check_error("error({1,2})", "ERR unknown error");
    check_error("error()", "ERR nil");
    check_error(
        "return redis.call('fail')",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
    );
    check_error(
        "return redis.call()",
        "ERR Please specify at least one argument for this call",
    );
    check_error(
        "return redis.call({})",
        "ERR Command arguments must be strings or integers",
    );
    check_error(
        "return string.rep()",
        "ERR user_script:1: bad argument #1 to 'rep' (string expected, got no value)",
    );
    check(
        "return redis.pcall('fail')",
        "-WRONGTYPE Operation against a key holding the wrong kind of value",
    );
    check(
        "\n\nreturn redis.call('fail')",
        "-WRONGTYPE Operation against a key holding the wrong kind of value \
         script: on @user_script:3.",
    );
    check(
        "return {pcall(redis.call,'fail')}",
        "[_ $WRONGTYPE Operation against a key holding the wrong kind of value]",
    );
    check(
        "return 1 1",
        "-ERR Error compiling script (new function): user_script:1: '<eof>' expected near '1'",
    );
}

#[test]
fn plain_scripts_and_others_see_the_same() {
    // The second of each pair says `_G`, so it is not plain.
    for (body, expected) in [
        ("return KEYS[1] .. ARGV[1] .. #KEYS", "$ka1"),
        ("return redis.call('echo', KEYS[1])", "$k"),
        (
            "return redis.pcall('fail')['err']",
            "$WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        (
            "return redis.call('fail')",
            "-WRONGTYPE Operation against a key holding the wrong kind of value script: on @user_script:1.",
        ),
        (
            "return missing",
            "-ERR user_script:1: Script attempted to access nonexistent global variable 'missing' script: on @user_script:1.",
        ),
        (
            "missing = 1",
            "-ERR user_script:1: Attempt to modify a readonly table script: on @user_script:1.",
        ),
        (
            "redis.call = 1",
            "-ERR user_script:1: Attempt to modify a readonly table script: on @user_script:1.",
        ),
        ("KEYS[2] = 'x' KEYS.y = 'z' return #KEYS", ":2"),
        ("return #KEYS .. tostring(KEYS.y)", "$1nil"),
        (
            "return coroutine.wrap(function() return redis.call('echo', ARGV[1]) end)()",
            "$a",
        ),
    ] {
        for source in [body.to_string(), format!("local g = _G {body}")] {
            let mut bench = Bench::new();
            for _ in 0..2 {
                let got = bench.eval_with(&source, &["k"], &["a"], false);
                assert_eq!(got, expected, "{source}");
            }
        }
    }
    let mut bench = Bench::new();
    bench.eval_with("return KEYS[1]", &["of plain"], &[], false);
    let other = bench.eval_with("return _G.KEYS[1]", &["of other"], &[], false);
    let plain = bench.eval_with("return KEYS[1]", &["of plain"], &[], false);
    assert_eq!((other.as_str(), plain.as_str()), ("$of other", "$of plain"));
}

#[test]
fn arguments_that_are_read_only_are_those_of_this_run() {
    let mut bench = Bench::new();
    let source = "return {#KEYS, KEYS[1] or '-', KEYS[2] or '-', KEYS[100] or '-', #ARGV}";
    let many: Vec<String> = (1..=100).map(|key| format!("k{key}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (keys, expected) in [
        (&["a", "b"][..], "[:2 $a $b $- :0]"),
        (&["c"], "[:1 $c $- $- :0]"),
        (&[], "[:0 $- $- $- :0]"),
        (&many, "[:100 $k1 $k2 $k100 :0]"),
        (&["d"], "[:1 $d $- $- :0]"),
    ] {
        assert_eq!(bench.eval_with(source, keys, &[], false), expected);
    }
}

#[test]
fn nothing_shared_can_be_changed() {
    for source in [
        "foo=1",
        "KEYS=1",
        "tonumber=1",
        "local a a, redis = 1, 2",
        "function pcall() end",
        "__khoa_call=1",
        "redis.call=1",
        "redis.foo=1",
        "string.foo=1",
        "getmetatable(_G).__index={}",
        "getmetatable('').__index={}",
        "string.format=nil",
    ] {
        check_error(
            source,
            "ERR user_script:1: Attempt to modify a readonly table",
        );
    }
    for source in [
        "rawset(_G,'a',1)",
        "table.insert(string,1)",
        "setmetatable(_G,{})",
        "setmetatable(string,{})",
    ] {
        check_error(source, "ERR Attempt to modify a readonly table");
    }
    check_error(
        "return foo",
        "ERR user_script:1: Script attempted to access nonexistent global variable 'foo'",
    );
    check("return getmetatable('').__index==string", ":1");
    check("return type(getmetatable(_G).__index)", "$function");
    check("return getmetatable(string)", "_");
    check("return rawget(string,'len')==string.len", ":1");
    check("local n=0 for k in pairs(os) do n=n+1 end return n", ":1");
    check("return next(os)", "$clock");
    check("KEYS[1]='x' return KEYS[1]", "$x");
}

#[test]
fn only_the_globals_of_the_reference_are_there() {
    for name in [
        "print", "require", "dofile", "loadfile", "getfenv", "setfenv", "newproxy", "module",
        "jit", "ffi", "debug", "io", "package",
    ] {
        check_error(
            &format!("return {name}"),
            &format!(
                "ERR user_script:1: Script attempted to access nonexistent global variable '{name}'"
            ),
        );
    }
    check(
        "return {type(table.new),type(os.time),type(string.buffer),type(coroutine.isyieldable)}",
        "[$nil $nil $nil $nil]",
    );
    check("return _VERSION", "$Lua 5.1");
    check("return loadstring(string.dump(function() end))", "_");
}

#[test]
fn a_busy_script_is_noticed_once_and_can_be_killed() {
    for source in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "coroutine.wrap(function() while true do end end)()",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "local function f() return f() end f()",
        "xpcall(function() while true do end end, function() while true do end end)",
        "string.find(('a'):rep(5000),'.-.-.-.-b$')",
        "load(function() return ' ' end)",
        "while true do redis.call('get','x') end",
        "local t=setmetatable({},{__index=function(t,k) return t[k-1] end}) while true do pcall(function() return t[1] end) end",
        "repeat until false",
    ] {
        let mut bench = Bench::new();
        bench.scripts.control().set_threshold_ms(1);
        bench.host.kill_when_busy = true;
        let reply = bench.eval(source);
        assert!(
            reply.contains("Script killed by user with SCRIPT KILL."),
            "{source}: {reply}"
        );
        assert_eq!(bench.host.became_busy, 1, "{source}");
        assert!(!bench.scripts.control().is_busy());
        assert_eq!(bench.eval("return 1"), ":1", "{source}");
    }
}

#[test]
fn a_native_that_could_run_for_hours_hears_that_the_script_is_to_end() {
    for (before, native) in [
        ("", "('a'):rep(30000):find(('.-'):rep(12)..'b')"),
        ("local s=('('):rep(1e6)", "s:find('%b()')"),
        ("local s=('a'):rep(1e6)", "s:find('^(.-)%1%1%1b')"),
        (
            "local s,p=('a'):rep(1e6),'['..('b'):rep(1e6)..']'",
            "s:find(p)",
        ),
        (
            "local s,p=('a'):rep(1e6),'%f['..('b'):rep(1e6)..']'",
            "s:find(p)",
        ),
        (
            "local s,r=('x'):rep(1e6),('%1'):rep(1e6)",
            "s:gsub('(y?)',r)",
        ),
        ("local s=('x'):rep(3e6)", "s:gsub('x',type)"),
        (
            "local t,k={},1e5 for i=1,k do if i%2==1 then t[i]=i t[i+1]=k+i end t[k+i]=2*i end",
            "table.sort(t)",
        ),
        (
            "local s,t=('a'):rep(1e6),{} for i=1,1e5 do t[i]=s end",
            "table.sort(t)",
        ),
        (
            "local t={} for i=1,1e5 do t[i]=i end",
            "table.sort(t,rawequal)",
        ),
        ("", "table.insert({},-2^31,1)"),
        ("local t={1} for i=1,60 do t={t,t} end", "cjson.encode(t)"),
        (
            "local s,t=('\\1'):rep(1e5),{} for i=1,1e5 do t[i]=s end",
            "cjson.encode(t)",
        ),
        (
            "local t={1} for i=1,15 do t={t,t,t,t,t,t,t,t,t,t} end",
            "cmsgpack.pack(t)",
        ),
        ("local f=('x'):rep(2e7)", "struct.size(f)"),
        ("local s=('a'):rep(2e7)", "redis.sha1hex(s)"),
        (
            "local s='return '..('a or '):rep(1e6)..'a'",
            "loadstring(s)()",
        ),
        (
            "local s=('%99.99f'):rep(5000) local t={} for i=1,5000 do t[i]=1e308 end",
            "s:format(unpack(t))",
        ),
    ] {
        let source = format!("{before} redis.call('doom'); {native}; redis.call('tick')");
        let mut bench = Bench::new();
        assert_eq!(
            bench.eval(&source),
            "-ERR Script killed by user with SCRIPT KILL. script: on @user_script:1.",
            "{source}"
        );
        assert_eq!(bench.host.ticks, 0, "{source}");
        assert_eq!(bench.eval("return 1"), ":1", "{source}");
    }
}

#[test]
fn instructions_that_take_long_are_looked_at_more_often() {
    for (before, instruction) in [
        (
            "local a,b=('a'):rep(4e6)..'x',('a'):rep(4e6)..'y'",
            "local c=a<b",
        ),
        ("local a=('a'):rep(4e6)", "local c=a..'x'"),
        ("local a=('a'):rep(4e6)", "a:upper()"),
        ("local t={} for i=1,5e5 do t[i]=i end", "table.maxn(t)"),
    ] {
        let mut bench = Bench::new();
        bench.eval(&format!(
            "{before} redis.call('doom') while true do {instruction}; redis.call('tick') end"
        ));
        assert!(bench.host.ticks < 50, "{instruction}: {}", bench.host.ticks);
    }
    // What is gone slows nobody down: the hook came for every ten thousandth instruction again.
    let mut bench = Bench::new();
    bench.eval(
        "local s=('a'):rep(1e7) s=nil select('#',1,2,3,4,5,6,7,8,9) collectgarbage() for i=1,1e5 do end \
         redis.call('doom') while true do redis.call('tick') end",
    );
    assert!(bench.host.ticks > 200, "{}", bench.host.ticks);
}

#[test]
fn a_result_that_grows_by_being_shared_is_bounded_and_can_be_ended() {
    let mut bench = Bench::new();
    let source = "local t={1} for i=1,60 do t={t,t} end return t";
    bench.scripts.set_memory_limit(16 << 20);
    assert_eq!(bench.eval(source), "-ERR not enough memory");
    assert_eq!(
        bench.eval(&format!("redis.call('doom') {source}")),
        "-ERR Script killed by user with SCRIPT KILL."
    );
    assert_eq!(bench.eval("return {1,{2}}"), "[:1 [:2]]");
}

#[test]
fn a_source_that_takes_too_long_to_compile_is_refused() {
    let source = format!("return {}a", "a or ".repeat(3_000_000));
    let reply = Bench::new().eval(&source);
    assert_eq!(
        reply,
        "-ERR Error compiling script (new function): script too complex to compile"
    );
}

#[test]
fn a_script_that_wrote_is_not_killed() {
    let control = Control::default();
    control.begin(false);
    assert_eq!(control.kill(Killer::Script), Err(Refusal::NothingRuns));
    control.set_threshold_ms(0);
    control.note_write();
    control.set_threshold_ms(1);
    while control.look() != control::Verdict::NowBusy {}
    assert_eq!(control.kill(Killer::Function), Err(Refusal::HasWritten));
    assert_eq!(control.kill(Killer::Script), Err(Refusal::HasWritten));
    assert_eq!(control.kill(Killer::Shutdown), Ok(()));
    assert_eq!(control.look(), control::Verdict::End);
}

#[test]
fn a_script_that_fills_its_memory_fails_and_the_next_one_runs() {
    for source in [
        "local t={} for i=1,1e9 do t[i]={} end",
        "local s='x' while true do s=s..s end",
        "return string.rep('x',2^31)",
        "local t={} for i=1,1e9 do t[i]=string.rep('x',1000)..i end",
        "local t={} local i=0 while true do i=i+1 pcall(function() t[i]=('y'):rep(100000)..i end) if i>1e4 then error('not enough memory') end end",
        "local t={} for i=1,1e6 do t[i]=redis.call('echo',('x'):rep(1e5)..i) end",
        "return ('x'):rep(1e6):gsub('x',('y'):rep(1e6))",
        "local function f(...) return f(1,...) end f()",
    ] {
        let mut bench = Bench::new();
        bench.scripts.set_memory_limit(16 << 20);
        let reply = bench.eval(source);
        assert!(
            reply.contains("not enough memory")
                || reply.contains("stack overflow")
                || reply.contains("too many"),
            "{source}: {reply}"
        );
        assert_eq!(bench.eval("return 1"), ":1", "{source}");
        assert!(bench.scripts.used_memory() < 16 << 20, "{source}");
    }
}

#[test]
fn a_panic_in_a_handler_is_an_error_of_the_script() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.eval("return redis.call('panic')"),
        "-ERR internal error script: on @user_script:1."
    );
    assert_eq!(bench.eval("return redis.call('echo','on')"), "$on");
}

#[test]
fn recursion_of_any_kind_ends_in_an_error() {
    for source in [
        "local function f() return f()+1 end f()",
        "local function f() pcall(f) end f() error('C stack overflow')",
        "local function f() coroutine.wrap(f)() end f()",
        "local function f() string.gsub('a','a',f) end f()",
        "local function f() table.sort({1,2},f) end f()",
        "local function f() table.foreach({1},f) end f()",
        "local t=setmetatable({},{}) getmetatable(t).__tostring=function() return tostring(t) end tostring(t)",
        "local t={} getmetatable(setmetatable(t,{__index=function(t,k) return t[k+1] end})) return t[1]",
        "local function f() return xpcall(f,f) end f() error('C stack overflow')",
        "return assert(loadstring('return '..('('):rep(300)..'1'..(')'):rep(300)))",
        "return unpack({1,2,3},0,2147483647)",
        "return unpack({},1,1e4)",
    ] {
        let mut bench = Bench::new();
        let reply = bench.eval(source);
        let known = [
            "stack overflow",
            "too many",
            "C levels",
            "error in error",
            "syntax levels",
        ];
        assert!(
            known.iter().any(|text| reply.contains(text)),
            "{source}: {reply:.300}"
        );
        assert_eq!(bench.eval("return 1"), ":1");
    }
    let deep = Bench::new().eval("local t={} t[1]=t return t");
    assert!(deep.contains("reached lua stack limit"));
}

#[test]
fn scripts_of_eval_are_evicted_and_loaded_ones_are_not() {
    let mut bench = Bench::new();
    let loaded = bench.scripts.load(b"return 'loaded'").expect("it compiles");
    let first = Sha::of(b"return 0");
    for n in 0..EVAL_SCRIPTS_MAX {
        bench.eval(&format!("return {n}"));
    }
    assert!(bench.scripts.exists(first.as_bytes()));
    bench.eval("return 'one more'");
    assert!(!bench.scripts.exists(first.as_bytes()));
    assert!(bench.scripts.exists(loaded.as_bytes()));
    assert_eq!(bench.scripts.evicted(), 1);
    for n in 1..EVAL_SCRIPTS_MAX {
        assert_eq!(bench.eval(&format!("return {n}")), format!(":{n}"));
    }
    assert_eq!(bench.scripts.len(), EVAL_SCRIPTS_MAX + 1);
}

#[test]
fn a_script_is_found_by_its_sha_in_either_case() {
    let mut bench = Bench::new();
    let sha = bench.scripts.load(b"return 1").expect("it compiles");
    assert_eq!(sha.as_bytes(), b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    assert!(
        bench
            .scripts
            .find(b"E0E1F9FABFC9D4800C877A703B823AC0578FF8DB")
            .is_some()
    );
    assert_eq!(bench.scripts.show(sha.as_bytes()), Some(&b"return 1"[..]));
    bench.scripts.flush();
    assert!(bench.scripts.find(sha.as_bytes()).is_none());
}

#[test]
fn the_first_line_may_declare_flags() {
    let mut bench = Bench::new();
    let id = bench
        .scripts
        .compile(b"#!lua flags=no-writes,allow-oom\nreturn 1")
        .expect("it compiles");
    let flags = bench.scripts.flags(id);
    assert!(flags.declared && flags.no_writes && flags.allow_oom && !flags.allow_stale);
    for (source, error) in [
        (
            "#!lua flags=bogus\n",
            "-ERR Unexpected flag in script shebang: bogus",
        ),
        ("#!lua name=x\n", "-ERR Unknown lua shebang option: name=x"),
        (
            "#!python\n",
            "-ERR Could not find scripting engine 'python'",
        ),
        ("#!lua", "-ERR Invalid script shebang"),
    ] {
        assert_eq!(bench.eval(source), error);
    }
}

#[test]
fn the_language_is_plain_lua() {
    check("return '\\x41\\u{41}'", "$x41u{41}");
    check(
        "return string.format('%5.1f|%d|%s|%x|%c', 3.14159, 42.7, 's', 255, 65)",
        "$  3.1|42|s|ff|A",
    );
    check(
        "return {tostring(0/0),tostring(-(0/0)),tostring(1e15),tonumber('0b1') or 'nil'}",
        "[$-nan $nan $1e+15 $nil]",
    );
    check("return string.rep('x',3,',')", "$xxx");
    check("return math.log(8,2)", ":2");
    check(
        "return 1LL",
        "-ERR Error compiling script (new function): user_script:1: malformed number near '1LL'",
    );
    check(
        "goto a ::a:: return 1",
        "-ERR Error compiling script (new function): user_script:1: '=' expected near 'a'",
    );
}

#[test]
fn json_is_written_and_read_as_the_reference_does() {
    check(
        "return cjson.encode({1,'a/b',true,cjson.null,{},{x=1/3}})",
        "$[1,\\\"a\\\\/b\\\",true,null,{},{\\\"x\\\":0.33333333333333}]",
    );
    check(
        "return cjson.decode('{\"a\":[1,{\"b\":\"\\\\u00e9\"}]}').a[2].b",
        "$\\xc3\\xa9",
    );
    check_error(
        "return cjson.decode('[1,]')",
        "ERR user_script:1: Expected value but found T_ARR_END at character 4",
    );
    check_error(
        "local t={} t[1]=t return cjson.encode(t)",
        "ERR user_script:1: Cannot serialise, excessive nesting (1001)",
    );
    check_error(
        "return cjson.decode(('['):rep(1001))",
        "ERR user_script:1: Found too many nested data structures (1001) at character 1001",
    );
}

#[test]
fn numbers_are_sorted_as_anything_else_is() {
    let sort = "local t = {} for i = 1, 500 do t[i] = i * 7919 % 503 end t[250] = ";
    let check_sorted = " table.sort(t) for i = 2, #t do if t[i] < t[i - 1] then return i end end \
        return {#t, t[1], t[#t]}";
    check(
        &format!("{sort} -1e300{check_sorted}"),
        "[:500 :-9223372036854775808 :502]",
    );
    check(&format!("{sort} -0.0{check_sorted}"), "[:500 :0 :502]");
    let mixed = format!("{sort} 'x' return pcall(table.sort, t) == false");
    check(&mixed, ":1");
}

#[test]
fn one_script_never_sees_what_another_set() {
    let mut bench = Bench::new();
    bench.eval("cjson.encode_number_precision(3) cjson.decode_max_depth(1) redis.setresp(3)");
    assert_eq!(bench.eval("return cjson.encode(1/3)"), "$0.33333333333333");
    assert_eq!(bench.eval("return cjson.decode('[[1]]')"), "[[:1]]");
    assert_eq!(
        bench.eval("return type(redis.call('get','none'))"),
        "$boolean"
    );
}

#[test]
fn packed_values_come_back_and_broken_ones_are_refused() {
    check(
        "return {cmsgpack.unpack(cmsgpack.pack(1,-33,2^40,'x',true,{1,2},0.5))}",
        "[:1 :-33 :1099511627776 $x :1 [:1 :2] :0]",
    );
    check_error(
        "return cmsgpack.unpack('\\146\\1')",
        "ERR user_script:1: Missing bytes in input.",
    );
    check(
        "return struct.pack('>I2bs',258,-1,'x')",
        "$\\x01\\x02\\xffx\\x00",
    );
    check(
        "return {struct.unpack('<i4c2','\\254\\255\\255\\255ab')}",
        "[:-2 $ab :7]",
    );
    check_error(
        "return struct.unpack('c2147483647','x')",
        "ERR user_script:1: bad argument #2 to 'unpack' (data string too short)",
    );
}

#[test]
fn nothing_that_a_library_is_given_ends_the_process() {
    let mut bench = Bench::new();
    for source in [
        "return cmsgpack.unpack(('\\145'):rep(100000))",
        "return cmsgpack.unpack('\\223\\255\\255\\255\\255'..('\\1'):rep(100))",
        "return cjson.decode(('{\"a\":'):rep(100000))",
        "return struct.unpack('I4c0','\\255\\255\\255\\255')",
        "return struct.pack('i32i32',1/0,-1/0)",
        "return struct.unpack(('b'):rep(10000),('x'):rep(10000))",
        "return struct.size(('c2147483647'):rep(1000))",
        "return bit.tohex(1,-2147483648)",
        "return table.concat({1,2},'',-2147483648,2147483647)",
        "return ('x'):rep(100):format(unpack({},1,100))",
        "return string.format('%99.99f',1e308)",
        "return ('a'):find(('a?'):rep(2000)..('a'):rep(2000))",
        "return select(-1)",
        "return coroutine.wrap(function() return coroutine.yield() end)()",
        "return tostring(setmetatable({},{__tostring=error}))",
        "local t=setmetatable({},{__index=function(t,k) error(t) end}) return t.x",
        "return unpack({},-2147483648,2147483647)",
        "return string.byte(('x'):rep(1e6),1,-1)",
        "return ('x'):gsub('x',{x=print})",
        "return loadstring(('return '):rep(100000))",
        "return loadstring(('a='):rep(1000)..'{'..('{'):rep(1000))",
    ] {
        let reply = bench.eval(source);
        assert!(!reply.is_empty(), "{source}");
        assert_eq!(bench.eval("return 1"), ":1", "{source}");
    }
}

/// Calls a function of a library.
fn fcall(functions: &mut Functions, name: &str, keys: &[&str]) -> String {
    let mut host = Bench::new().host;
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    let mut text = Text::default();
    functions.call(name.as_bytes(), &mut host, &keys, &[], &mut text);
    text.out
}

#[track_caller]
fn refused(functions: &mut Functions, source: &str) -> String {
    let error = functions
        .load(source.as_bytes(), false)
        .expect_err("it is not to be loaded");
    String::from_utf8_lossy(error.as_bytes()).into_owned()
}

const COUNTER: &str = "#!lua name=counting\n\
    local calls = 0\n\
    redis.register_function('count', function(keys) calls = calls + 1 return {calls, #keys} end)\n\
    redis.register_function{function_name='peek', callback=function() return calls end, \
    flags={'no-writes'}, description='looks'}";

#[test]
fn functions_keep_their_librarys_state_and_are_found_in_any_case() {
    let mut functions = Functions::new(Arc::default());
    assert_eq!(
        functions.load(COUNTER.as_bytes(), false),
        Ok(b"counting".to_vec())
    );
    assert_eq!(fcall(&mut functions, "count", &["a", "b"]), "[:1 :2]");
    assert_eq!(fcall(&mut functions, "COUNT", &[]), "[:2 :0]");
    assert_eq!(fcall(&mut functions, "peek", &[]), ":2");
    assert!(
        functions
            .flags(b"peek")
            .is_some_and(|flags| flags.no_writes)
    );
    assert!(
        functions
            .flags(b"count")
            .is_some_and(|flags| !flags.no_writes)
    );
    assert!(functions.flags(b"none").is_none());
}

#[test]
fn a_library_that_fails_to_load_changes_nothing() {
    let mut functions = Functions::new(Arc::default());
    functions
        .load(COUNTER.as_bytes(), false)
        .expect("it is sound");
    let head = "#!lua name=other\n";
    for (body, error) in [
        ("", "ERR No functions registered"),
        (
            "redis.register_function('peek', function() end)",
            "ERR Function peek already exists",
        ),
        (
            "redis.register_function('a', function() end) redis.register_function('A', function() end)",
            "ERR Function already exists in the library",
        ),
        (
            "redis.call('get','x')",
            "ERR Error registering functions: ERR user_function:2: Script attempted to access \
             nonexistent global variable 'call'",
        ),
        (
            "while true do end",
            "ERR Error registering functions: ERR FUNCTION LOAD timeout",
        ),
        (
            "x = = 1",
            "ERR Error compiling function: user_function:2: unexpected symbol near '='",
        ),
    ] {
        assert_eq!(refused(&mut functions, &format!("{head}{body}")), error);
    }
    assert_eq!(functions.libraries().count(), 1);
    assert_eq!(fcall(&mut functions, "count", &[]), "[:1 :0]");
}

#[test]
fn a_function_that_returns_a_commands_error_names_its_own_line() {
    let mut functions = Functions::new(Arc::default());
    let source = "#!lua name=l\n\nredis.register_function('f', function(keys)\n\
                  return redis.call('fail')\nend)";
    functions
        .load(source.as_bytes(), false)
        .expect("it is sound");
    assert_eq!(
        fcall(&mut functions, "f", &[]),
        "-WRONGTYPE Operation against a key holding the wrong kind of value \
         script: on @user_function:4."
    );
}

#[test]
fn libraries_are_restored_all_or_none() {
    let mut functions = Functions::new(Arc::default());
    functions
        .load(COUNTER.as_bytes(), false)
        .expect("it is sound");
    let other = "#!lua name=other\nredis.register_function('o', function() return 1 end)";
    let both = [other.as_bytes().to_vec(), COUNTER.as_bytes().to_vec()];
    assert!(functions.restore(&both, RestorePolicy::Append).is_err());
    assert!(functions.flags(b"o").is_none());
    assert_eq!(functions.restore(&both, RestorePolicy::Replace), Ok(()));
    assert_eq!(fcall(&mut functions, "o", &[]), ":1");
    assert_eq!(functions.restore(&both[..1], RestorePolicy::Flush), Ok(()));
    assert!(functions.flags(b"count").is_none());
}
