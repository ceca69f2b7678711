//! Lua: sources of any text, and what its libraries make of any bytes.

use std::cell::OnceCell;

use khoa_server::fuzzing::limit_script_memory;
use khoa_server::{Answer, Server};

use super::{seeds, watch};

/// What a Lua state may occupy, in bytes.
const SCRIPT_MEMORY_MAX: usize = 16 << 20;

thread_local! {
    static SERVER: OnceCell<Server> = const { OnceCell::new() };
}

/// Lends this thread's server, whose clock stands still and whose scripts are ended in time.
pub fn with_server<R>(work: impl FnOnce(&Server) -> R) -> R {
    unwatched(|server| {
        let _watched = watch::scripts(server);
        work(server)
    })
}

/// As [`with_server`], for scripts that end by themselves: on a busy machine they may take long.
fn unwatched<R>(work: impl FnOnce(&Server) -> R) -> R {
    SERVER.with(|server| work(server.get_or_init(start)))
}

fn start() -> Server {
    let server = Server::builder()
        .no_port()
        .frozen_at_ms(1_700_000_000_000)
        .seed(1)
        .setting("busy-reply-threshold", "0")
        .setting("maxmemory", "64mb")
        .setting("proto-max-bulk-len", "1mb")
        .setting("enable-debug-command", "yes")
        .start()
        .expect("a server");
    limit_script_memory(&server, SCRIPT_MEMORY_MAX);
    server
}

fn eval(server: &Server, source: &[u8], args: &[&[u8]]) -> Answer {
    let words: [&[u8]; 3] = [b"EVAL", source, b"0"];
    server.run(words.into_iter().chain(args.iter().copied()))
}

/// What every library's own check begins with: are two values the same, and how many are there?
const COMMON: &str = "
    local function near(a, b)
        return a == b or a ~= a and b ~= b
            or type(a) == 'number' and math.abs(a - b) <= 1e-13 * math.abs(a)
    end
    local function same(a, b)
        if type(a) ~= type(b) then return false end
        if type(a) ~= 'table' then return near(a, b) end
        for k, v in pairs(a) do
            if type(k) ~= 'table' and not same(v, b[k]) then return false end
        end
        for k in pairs(b) do
            if type(k) ~= 'table' and a[k] == nil then return false end
        end
        return true
    end
    local function list(...) return {n = select('#', ...), ...} end
";

/// Runs a check, which must say that all is well unless it ran out of memory or time.
fn check(checker: &str, args: &[&[u8]]) {
    let source = [COMMON, checker].concat();
    let answer = with_server(|server| eval(server, source.as_bytes(), args));
    match answer {
        Answer::Simple(_) => {}
        Answer::Error(text) if text.contains("not enough memory") || text.contains("killed") => {}
        other => panic!("{other}"),
    }
}

pub fn cjson(input: &[u8]) {
    const CHECK: &str = "
        local ok, first = pcall(cjson.decode, ARGV[1])
        if not ok then return {ok = 'refused'} end
        local ok, text = pcall(cjson.encode, first)
        if not ok then return {ok = 'no text'} end
        local second = cjson.decode(text)
        if not same(first, second) then return {err = 'first: ' .. text} end
        local third = cjson.decode(cjson.encode(second))
        if not same(second, third) then return {err = 'second: ' .. text} end
        return {ok = 'same'}";
    check(CHECK, &[input]);
}

pub fn cmsgpack(input: &[u8]) {
    const CHECK: &str = "
        pcall(cmsgpack.unpack_one, ARGV[1], #ARGV[1] % 7)
        pcall(cmsgpack.unpack_limit, ARGV[1], 2, #ARGV[1] % 5)
        local first = list(pcall(cmsgpack.unpack, ARGV[1]))
        if not first[1] or first.n == 1 then return {ok = 'refused'} end
        local text = cmsgpack.pack(unpack(first, 2, first.n))
        local ok, second = pcall(function() return list(cmsgpack.unpack(text)) end)
        -- A table that is nested too deep is packed as nil, even as a key.
        if not ok and second:find('table index is nil') then return {ok = 'too deep'} end
        if not ok then return {err = second} end
        if second.n ~= first.n - 1 then return {err = 'count'} end
        local third = list(cmsgpack.unpack(cmsgpack.pack(unpack(second, 1, second.n))))
        if not same(second, third) then return {err = 'another value'} end
        return {ok = 'same'}";
    check(CHECK, &[input]);
}

/// The format is the first line, the data is what follows.
pub fn structs(input: &[u8]) {
    const CHECK: &str = "
        local format, data = ARGV[1], ARGV[2]
        local sized, size = pcall(struct.size, format)
        pcall(struct.pack, format, 1, 2, data, 4, data, -6, 7.5, data)
        local first = list(pcall(struct.unpack, format, data))
        if not first[1] then return {ok = 'refused'} end
        -- A string whose length is the value before it leaves that value out.
        if format:find('c0') then return {ok = 'cannot be packed'} end
        local text = struct.pack(format, unpack(first, 2, first.n - 1))
        if sized and #text ~= size then return {err = 'size ' .. #text .. ', not ' .. size} end
        local second = list(true, struct.unpack(format, text))
        if second.n ~= first.n then return {err = 'count'} end
        for i = 2, first.n - 1 do
            local a, b = first[i], second[i]
            local exact = type(a) ~= 'number' or math.abs(a) < 2^53
            if exact and not near(a, b) then return {err = tostring(a) .. ' ' .. tostring(b)} end
        end
        return {ok = 'same'}";
    let at = input.iter().position(|&byte| byte == b'\n');
    let at = at.unwrap_or(input.len());
    check(
        CHECK,
        &[&input[..at], input.get(at + 1..).unwrap_or_default()],
    );
}

/// What a script finds, whatever ran before it.
const PROBE: &[u8] = b"
    local sparse, text = pcall(cjson.encode, {[1] = 1, [50] = 2})
    return {
        #KEYS, #ARGV, sparse, text, cjson.encode({1, {a = 1/3}}), cmsgpack.unpack(cmsgpack.pack('a')),
        struct.unpack('>I2', struct.pack('>I2', 77)), bit.bxor(5, 3), redis.sha1hex(''),
        string.format('%5.1f|%s|%d', 1.25, 'x', 7), ('x'):rep(3), ('abc'):find('b', 1, true),
        math.floor(2.5), table.concat({1, 2}, ','), tostring(nil), type(_G),
        type(redis.call), redis.call('PING').ok, pcall(function() return nothing end), tonumber('0x10'),
        pcall(function() redis.x = 1 end), select('#', unpack({1, 2, 3})), next({}), _VERSION,
    }";

/// A script, or a library of functions if it says so.
pub fn lua(input: &[u8]) {
    thread_local! {
        static EXPECTED: OnceCell<Answer> = const { OnceCell::new() };
    }
    let probe = || unwatched(|server| eval(server, PROBE, &[]));
    let expected = EXPECTED.with(|expected| expected.get_or_init(probe).clone());
    assert!(!expected.is_error(), "{expected}");
    with_server(|server| {
        if input.starts_with(b"#!") && input.windows(5).any(|part| part == b"name=") {
            functions(server, input);
        }
        let key: &[&[u8]] = &[b"EVAL", input, b"1", b"k", b"a", b"7"];
        server.run(key);
        server.run(["FLUSHALL", "SYNC"]);
    });
    assert_eq!(probe(), expected, "what the next script finds");
    with_server(|server| server.run(["SCRIPT", "FLUSH", "SYNC"]));
}

fn functions(server: &Server, source: &[u8]) {
    let words: [&[u8]; 4] = [b"FUNCTION", b"LOAD", b"REPLACE", source];
    if !server.run(words).is_error() {
        let list = format!("{}", server.run(["FUNCTION", "LIST"]));
        assert!(!list.is_empty());
        for name in ["f", "g", "myfunc", "test", "fun"] {
            server.run(["FCALL", name, "1", "k", "7"]);
        }
    }
    server.run(["FUNCTION", "FLUSH", "SYNC"]);
}

pub fn lua_seeds() -> Vec<Vec<u8>> {
    let source = |mut args: Vec<Vec<u8>>| {
        let command = args[0].to_ascii_lowercase();
        match (&command[..], args.len()) {
            (b"eval" | b"eval_ro", 2..) => Some(args.swap_remove(1)),
            (b"script" | b"function", 3..) => args.pop().filter(|source| source.len() > 20),
            _ => None,
        }
    };
    let mut all: Vec<Vec<u8>> = seeds::all_requests().filter_map(source).collect();
    let more = [
        "#!lua name=l\nredis.register_function('f', function(k, a) return {k[1], a[1]} end)",
        "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(i) end",
        "local c = coroutine.wrap(function() while true do coroutine.yield(1) end end) while c() do end",
        "return pcall(string.rep, 'x', 2^31)",
        "local function f(n) return n == 0 and 0 or 1 + f(n - 1) end return f(1e6)",
        "return ('a'):rep(30):find(('a?'):rep(30) .. ('a'):rep(30))",
        "while true do pcall(function() error({}) end) end",
        "return setmetatable({}, {__index = function(t, k) return k end, __gc = function() end})[1]",
        "table.sort({3, 1, 2}, function(a, b) return true end)",
        "local t = {} t[1] = t return t",
        "return string.format('%99.99f %q %s', 1e308, '\\0\\n', {})",
        "return ('x'):gsub('.', {x = ('y'):rep(1e6)}):rep(1e3)",
    ];
    all.extend(more.map(|text| text.as_bytes().to_vec()));
    all.sort();
    all.dedup();
    all.retain(|source| source.len() < 1500);
    all
}

pub fn lua_words() -> Vec<Vec<u8>> {
    let all = "and break do else elseif end false for function if in local nil not or repeat return \
        then true until while .. ... == ~= <= >= 1e308 -1 0x7fffffff 2^53 2^31 [[ ]] [=[ --[[ ]] \
        pcall( error( assert( unpack( select( next( pairs( ipairs( rawset( rawget( rawequal( \
        setmetatable( getmetatable( tostring( tonumber( loadstring( load( getfenv( setfenv( xpcall( \
        collectgarbage( newproxy( gcinfo( print( type( dofile( coroutine.wrap( coroutine.yield( \
        coroutine.create( coroutine.resume( string.rep( string.format( string.gsub( string.find( \
        string.gmatch( string.byte( string.char( string.dump( string.sub( string.reverse( \
        table.concat( table.insert( table.remove( table.sort( table.maxn( table.foreach( \
        math.random( math.floor( math.huge math.fmod( bit.lshift( bit.tohex( cjson.encode( \
        cjson.decode( cjson.new( cjson.encode_max_depth( cmsgpack.pack( cmsgpack.unpack( struct.pack( \
        struct.unpack( redis.call( redis.pcall( redis.sha1hex( redis.setresp( redis.log( \
        redis.error_reply( redis.status_reply( redis.breakpoint( redis.register_function( \
        redis.acl_check_cmd( KEYS[1] ARGV[1] _G __index __newindex __call __gc __mode __metatable \
        __concat __eq __lt __tostring __len %d %s %5.2f %q %b() %f[ [^%a] %1 '\\0' \"x\" {} () ,";
    all.split_whitespace()
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

pub fn cjson_seeds() -> Vec<Vec<u8>> {
    let all = [
        r#"{"a":[1,2.5,-3e10,null,true,false],"b":{"c":"\u00e9\ud83d\ude00\n\\"}}"#,
        r#"[[],{},"",0,-0,1e-7,123456789012345678]"#,
        "[nan,Infinity,-inf,0x1F,1e400]",
        r#"{"1":1,"2":2,"":{"":[]}}"#,
        r#""plain""#,
        "[[[[[[[[[[1]]]]]]]]]]",
        " [ 1 , 2 ] ",
    ];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}

pub fn cjson_words() -> Vec<Vec<u8>> {
    let all = [
        "{", "}", "[", "]", ":", ",", "\"", "\\u0000", "\\ud800", "\\udc00", "null", "true", "nan",
        "inf", "e", "-", "1e308", "[[[[[[[[", "{\"a\":", "\\", "0x",
    ];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}

pub fn cmsgpack_seeds() -> Vec<Vec<u8>> {
    let makers = [
        "{1, 2.5, 'a', {b = {c = true}}, false, -1, -200, 70000, 2^40, -2^40, 1/0}",
        "('x'):rep(40), ('y'):rep(300), nil, {nil, 2}",
        "{{{{{{{{{{{{{{{{{{1}}}}}}}}}}}}}}}}}}",
        "{[1] = 1, [3] = 3, [-1] = 0, a = 1}",
    ];
    let packed = |values: &str| {
        let source = format!("return cmsgpack.pack({values})");
        with_server(|server| eval(server, source.as_bytes(), &[]).into_bytes())
    };
    makers.into_iter().filter_map(packed).collect()
}

pub fn cmsgpack_words() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = (0xc0..=0xdf_u8).map(|kind| vec![kind]).collect();
    all.extend([
        vec![0x81, 0xa1, b'a'],
        vec![0x92],
        vec![0xdd, 0xff, 0xff, 0xff, 0xff],
        vec![0xdf, 0x7f, 0xff, 0xff, 0xff],
        vec![0xdb, 0, 0, 0, 1],
        vec![0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0],
    ]);
    all
}

pub fn struct_seeds() -> Vec<Vec<u8>> {
    let all: [&[u8]; 6] = [
        b">I2i4hHbB\n\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c",
        b"<dfs\n\0\0\0\0\0\0\xf0\x3f\0\0\x80\x3fabc\0",
        b"Bc0x\n\x03abcd",
        b"!4 b i8 c3 L\n\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7fabc\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"i16I32\n0123456789abcdef0123456789abcdef0123456789abcdef",
        b"TlL\n\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\x80\xff\xff\xff\xff\xff\xff\xff\xff",
    ];
    all.map(<[u8]>::to_vec).to_vec()
}

pub fn struct_words() -> Vec<Vec<u8>> {
    let all = [
        "b",
        "B",
        "h",
        "H",
        "l",
        "L",
        "T",
        "i3",
        "I8",
        "i32",
        "I33",
        "s",
        "c0",
        "c99",
        "c2147483647",
        "x",
        "f",
        "d",
        "!",
        "!8",
        "!16",
        ">",
        "<",
        "\n",
        "\0",
        "4294967296",
    ];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}
