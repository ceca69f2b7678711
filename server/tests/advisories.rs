//! Faults of Redis and Valkey that were made public, replayed: each ends in an error or in what
//! was to be expected, and the server goes on as if nothing had been.
#![cfg(feature = "scripting")]

use khoa_server::Server;

/// Runs a script on a server, shows what came of it, and sees that other scripts find all as ever.
#[track_caller]
fn replay(script: &str) -> String {
    let server = Server::start().unwrap();
    let answer = server.run(["EVAL", script, "0"]).to_string();
    let after = "local t = {} for i = 1, 100 do t[i] = ('x'):rep(i) end return #table.concat(t)";
    let next = server.run(["EVAL", after, "0"]).to_string();
    assert_eq!(next, "5050", "{script}");
    answer
}

/// Every line is a script that has to fail with this.
#[track_caller]
fn all_fail_with(expected: &str, scripts: &[&str]) {
    for script in scripts {
        let answer = replay(script);
        assert!(answer.contains(expected), "{script}\n{answer}");
    }
}

/// The name of a chunk was garbage while it was parsed.
#[test]
fn cve_2025_49844_the_name_of_a_chunk_outlives_its_parsing() {
    let answer = replay(
        "local kept = {}
         for i = 1, 100 do
             local name = '@' .. i .. ('n'):rep(40)
             local source = {}
             for j = 1, 50 do
                 source[j] = 'local s = \"' .. i .. '-' .. j .. ('x'):rep(100) .. '\"'
             end
             source[51] = 'error(\"raised\")'
             local chunk = loadstring(table.concat(source, ' '), name)
             collectgarbage()
             local _, message = pcall(chunk)
             if message ~= name:sub(2) .. ':1: raised' then return {i, message} end
             kept[i % 10] = chunk
         end
         return 'sound'",
    );
    assert_eq!(answer, "\"sound\"");
}

/// A range of 2^31 values and more was counted in an `int`.
#[test]
fn cve_2025_46817_unpack_counts_what_it_is_to_return() {
    all_fail_with(
        "too many results to unpack",
        &[
            "return {unpack({1, 2, 3}, 0, 2147483647)}",
            "return {unpack({1, 2, 3}, -2, 2147483647)}",
            "return {unpack({}, -2147483648, 2147483647)}",
            "return {unpack({}, 1, 8001)}",
        ],
    );
}

/// What one user put into the metatable of strings was called by the scripts of all others.
#[test]
fn cve_2025_46818_metatables_of_basic_types_are_out_of_reach() {
    let scripts = [
        "getmetatable('').__index = function() return 'mine' end",
        "getmetatable('').__add = function() return 'mine' end",
        "rawset(getmetatable(''), '__index', {})",
        "string.upper = function() return 'mine' end",
        "setmetatable(getmetatable('').__index, {})",
        "setmetatable(_G, {__index = function() return 'mine' end})",
        "table.insert(getmetatable('').__index, 'mine')",
    ];
    for script in scripts {
        let server = Server::start().unwrap();
        let answer = server.run(["EVAL", script, "0"]).to_string();
        assert!(answer.contains("ERR"), "{script}: {answer}");
        let other =
            "return {('x'):upper(), ('x').y, tostring(pcall(function() return 'a' + 1 end))}";
        let seen = server.run(["EVAL", other, "0"]).to_string();
        assert_eq!(seen, "[\"X\"]", "{script}");
    }
}

/// A long bracket that is never closed was read beyond its end.
#[test]
fn cve_2025_46819_long_brackets_end_with_the_source() {
    all_fail_with(
        "nil",
        &[
            "return tostring(loadstring('return [' .. ('='):rep(1000000)))",
            "return tostring(loadstring('return [==[' .. (']='):rep(100000)))",
            "return tostring(loadstring('--[' .. ('='):rep(100000) .. '['))",
            "return tostring(loadstring('x = [=' .. string.char(0) .. '['))",
        ],
    );
}

/// Strings of half a gigabyte overflowed the buffers of cjson and cmsgpack.
#[test]
fn cve_2022_24834_what_is_too_long_to_encode_is_refused() {
    let server = Server::builder()
        .setting("script-memory-limit", "64mb")
        .start()
        .unwrap();
    let scripts = [
        "local s = ('\"'):rep(10000000) return #cjson.encode({s, s, s, s})",
        "local s = ('\\0'):rep(10000000) return #cjson.encode({s, s})",
        "local s = ('x'):rep(10000000) return #cmsgpack.pack(s, s, s, s, s, s, s, s)",
        "return ('x'):rep(2147483647)",
    ];
    for script in scripts {
        let answer = server.run(["EVAL", script, "0"]).to_string();
        assert!(answer.contains("not enough memory"), "{script}\n{answer}");
    }
    assert_eq!(server.run(["EVAL", "return 'sound'", "0"]), "sound");
}

/// Sizes in formats of struct overflowed, and alignments too.
#[test]
fn cve_2018_11219_and_2020_14147_and_2015_8080_sizes_in_formats_are_checked() {
    let scripts = [
        "return struct.pack('>I2147483648', '10')",
        "return struct.pack('>I4294967297', '10')",
        "return struct.unpack('>I2147483648', ('x'):rep(64))",
        "return struct.unpack('c2147483648', ('x'):rep(64))",
        "return struct.unpack('c4294967300', ('x'):rep(64))",
        "return struct.unpack('!2147483648d', ('x'):rep(64))",
        "return struct.pack('!3d', 1)",
        "return struct.unpack('I4', ('x'):rep(8), 4294967295)",
        "return struct.unpack('I4', ('x'):rep(8), -1)",
        "return struct.size('!16' .. ('d'):rep(10) .. 'c2147483647c2147483647')",
    ];
    for script in scripts {
        let answer = replay(script);
        assert!(
            answer.contains("ERR") || answer.parse::<i64>().is_ok(),
            "{script}\n{answer}"
        );
    }
}

/// Values nested in one another, or many of them, overflowed the stacks of cmsgpack and cjson.
#[test]
fn cve_2018_11218_deep_and_many_values_are_refused_or_read() {
    let scripts = [
        "return cmsgpack.unpack(('\\145'):rep(1000000))",
        "return cmsgpack.unpack(('\\129\\1'):rep(1000000))",
        "return select('#', cmsgpack.unpack(('\\1'):rep(1000000)))",
        "return cmsgpack.unpack('\\221\\255\\255\\255\\255')",
        "return cmsgpack.unpack('\\219\\255\\255\\255\\255')",
        "local t = {} for i = 1, 200000 do t = {t} end return cmsgpack.pack(t)",
        "return cjson.decode(('['):rep(1000000))",
        "local t = {} for i = 1, 200000 do t = {t} end return cjson.encode(t)",
    ];
    for script in scripts {
        let answer = replay(script);
        let refused = answer.contains("ERR");
        assert!(
            refused || script.contains("cmsgpack.pack(t)"),
            "{script}\n{answer}"
        );
    }
}

/// The least count of digits had no positive counterpart.
#[test]
fn cve_2024_31449_bit_tohex_takes_any_count_of_digits() {
    assert_eq!(
        replay("return bit.tohex(65535, -2147483648)"),
        "\"0000FFFF\""
    );
    assert_eq!(replay("return bit.tohex(1, 2147483647)"), "\"00000001\"");
}

/// A line break in an error's text began a reply of the script's own making.
#[test]
fn cve_2025_67733_an_error_is_one_reply_whatever_its_text() {
    let scripts = [
        "return redis.error_reply('My\\r\\n+OK\\r\\n$1\\r\\nx')",
        "return redis.error_reply('My \\0\\r\\n+OK')",
        "return {err = 'My\\n:1\\r\\n'}",
        "error({err = 'My\\r\\n+OK'})",
        "error('My\\r\\n+OK')",
        "return redis.status_reply('My\\r\\n+OK')",
        "return {ok = 'My\\0\\r\\n-ERR'}",
    ];
    for script in scripts {
        let server = Server::start().unwrap();
        let answer = on_the_wire(&server, script);
        let (reply, pong) = answer.split_once("\r\n").unwrap();
        assert_eq!(pong, "+PONG\r\n", "{script}: {answer:?}");
        assert!(!reply.contains(['\r', '\n']), "{script}: {answer:?}");
    }
}

/// What a client reads after a script and a PING.
fn on_the_wire(server: &Server, script: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(server.addr()).unwrap();
    let len = script.len();
    let eval = format!("*3\r\n$4\r\nEVAL\r\n${len}\r\n{script}\r\n$1\r\n0\r\n");
    stream
        .write_all(format!("{eval}PING\r\nQUIT\r\n").as_bytes())
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.strip_suffix("+OK\r\n").unwrap_or(&text).to_owned()
}

/// Finalisers ran while the state was being closed, and made garbage of what was in use.
#[test]
fn cve_2024_46981_scripts_make_no_finalisers() {
    let answer = replay(
        "local ran = false
         setmetatable({}, {__gc = function() ran = true end})
         collectgarbage() collectgarbage()
         return {tostring(rawget(_G, 'newproxy')), tostring(ran)}",
    );
    assert_eq!(answer, "[\"nil\", \"false\"]");
}

/// Code that was compiled elsewhere ran unchecked.
#[test]
fn cve_2015_4335_there_is_no_way_to_run_compiled_code() {
    all_fail_with(
        "nil",
        &[
            "return tostring(loadstring(string.dump(function() return 1 end)))",
            "return tostring(loadstring('\\27Lua'))",
            "return tostring(loadstring('\\27LJ\\2'))",
            "local parts = {'\\27', 'LJ'} return tostring(load(function() return table.remove(parts, 1) end))",
        ],
    );
    assert!(replay("\x1bLua").contains("ERR"));
}

/// Debian's build left the library that loads others within reach of scripts.
#[test]
fn cve_2022_0543_scripts_load_no_libraries() {
    for name in [
        "package", "require", "module", "io", "debug", "jit", "ffi", "dofile", "loadfile",
    ] {
        assert!(
            replay(&format!("return tostring({name})")).contains("nonexistent global"),
            "{name}"
        );
    }
}

/// What a script did to a shared library waited there for the scripts of other users.
#[test]
fn cve_2022_24735_a_script_changes_nothing_that_others_use() {
    all_fail_with(
        "readonly",
        &[
            "redis.call = function() return 'mine' end",
            "cjson.encode = nil",
            "rawset(math, 'floor', nil)",
            "rawset(redis, 'call', nil)",
            "setmetatable(redis, nil)",
            "_G.mine = 1",
        ],
    );
}

/// A reply nested or broad enough overflowed the stack of the script that it was given to.
#[test]
fn cve_2021_32626_any_reply_of_a_command_fits_the_stack() {
    let answer = replay(
        "local t = {} for i = 1, 5000 do t[i] = i end
         redis.call('rpush', 'l', unpack(t))
         local function deep(n) if n > 0 then return deep(n - 1) + 0 end return #redis.call('lrange', 'l', 0, -1) end
         return deep(180)",
    );
    assert_eq!(answer, "5000");
}
