//! Places on Earth: sorted sets whose scores are geohashes.

use super::*;
use crate::{
    command::spec::{Categories, Flags, KeySpec},
    geohash::{Area, Point, Shape},
    keyspace::{Event, Ttl},
    number::parse_decimal,
    value::{
        Kind,
        sorted_set::{ScoreBound, SortedSet},
    },
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "geoadd",
        arity: -5,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::GEO,
        keys: &[KeySpec::one("RW update", 1)],
        group: "geo",
        since: "3.2.0",
        history: &[("6.2.0", "Knows `NX`, `XX` and `CH`.")],
        summary: "Adds places to a sorted set, under their geohashes as scores.",
        complexity: "O(log N) for each place",
        args: "key:key [condition<NX|XX>{6.2.0}] [change=CH{6.2.0}] data(longitude:double \
               latitude:double member:string)...",
        handler: geoadd,
        ..Command::BASE
    },
    Command {
        name: "geodist",
        arity: -4,
        flags: Flags::READONLY,
        categories: Categories::GEO,
        keys: &[KeySpec::one("RO access", 1)],
        group: "geo",
        since: "3.2.0",
        summary: "Returns how far two members are apart.",
        args: "key:key member1:string member2:string [unit<M|KM|FT|MI>]",
        handler: geodist,
        ..Command::BASE
    },
    Command {
        name: "geohash",
        arity: -2,
        flags: Flags::READONLY,
        categories: Categories::GEO,
        keys: &[KeySpec::one("RO access", 1)],
        group: "geo",
        since: "3.2.0",
        summary: "Returns the geohashes of members as text.",
        complexity: "O(1) for each member",
        args: "key:key [member:string...]",
        handler: geohash,
        ..Command::BASE
    },
    Command {
        name: "geopos",
        arity: -2,
        flags: Flags::READONLY,
        categories: Categories::GEO,
        keys: &[KeySpec::one("RO access", 1)],
        group: "geo",
        since: "3.2.0",
        summary: "Returns the longitudes and latitudes of members.",
        complexity: "O(1) for each member",
        args: "key:key [member:string...]",
        handler: geopos,
        ..Command::BASE
    },
    Command {
        name: "georadius",
        arity: -6,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::MOVABLEKEYS]),
        categories: Categories::GEO,
        keys: &[
            KeySpec::one("RO access", 1),
            KeySpec {
                flags: "OW update variable_flags",
                notes: "",
                begin: Begin::Keyword {
                    word: "STORE",
                    from: 6,
                },
                find: Find::Range {
                    last: 0,
                    step: 1,
                    limit: 0,
                },
            },
            KeySpec {
                flags: "OW update variable_flags",
                notes: "",
                begin: Begin::Keyword {
                    word: "STOREDIST",
                    from: 6,
                },
                find: Find::Range {
                    last: 0,
                    step: 1,
                    limit: 0,
                },
            },
        ],
        group: "geo",
        since: "3.2.0",
        history: &[
            ("6.2.0", "Knows `ANY` behind `COUNT`."),
            ("7.0.0", "Takes units in upper case."),
        ],
        summary: "Returns the members around a place, or stores them.",
        complexity: "O(N + log M) where N is the number of members in the squares around the area and M that of the set",
        args: "key:key longitude:double latitude:double radius:double unit<M|KM|FT|MI> \
               [WITHCOORD] [WITHDIST] [WITHHASH] [count-block(COUNT@count:integer [ANY{6.2.0}])] \
               [order<ASC|DESC>] [store<STORE@storekey:key{=key}|\
               STOREDIST@storedistkey:key{=key}>]",
        handler: georadius,
        ..Command::BASE
    },
    Command {
        name: "georadius_ro",
        arity: -6,
        flags: Flags::READONLY,
        categories: Categories::GEO,
        keys: &[KeySpec::one("RO access", 1)],
        group: "geo",
        since: "3.2.10",
        history: &[
            ("6.2.0", "Knows `ANY` behind `COUNT`."),
            ("7.0.0", "Takes units in upper case."),
        ],
        summary: "Returns the members around a place.",
        complexity: "O(N + log M) where N is the number of members in the squares around the area and M that of the set",
        args: "key:key longitude:double latitude:double radius:double unit<M|KM|FT|MI> \
               [WITHCOORD] [WITHDIST] [WITHHASH] [count-block(COUNT@count:integer [ANY{6.2.0}])] \
               [order<ASC|DESC>]",
        handler: georadius,
        ..Command::BASE
    },
    Command {
        name: "georadiusbymember",
        arity: -5,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::MOVABLEKEYS]),
        categories: Categories::GEO,
        keys: &[
            KeySpec::one("RO access", 1),
            KeySpec {
                flags: "OW update variable_flags",
                notes: "",
                begin: Begin::Keyword {
                    word: "STORE",
                    from: 5,
                },
                find: Find::Range {
                    last: 0,
                    step: 1,
                    limit: 0,
                },
            },
            KeySpec {
                flags: "OW update variable_flags",
                notes: "",
                begin: Begin::Keyword {
                    word: "STOREDIST",
                    from: 5,
                },
                find: Find::Range {
                    last: 0,
                    step: 1,
                    limit: 0,
                },
            },
        ],
        group: "geo",
        since: "3.2.0",
        history: &[
            ("6.2.0", "Knows `ANY` behind `COUNT`."),
            ("7.0.0", "Takes units in upper case."),
        ],
        summary: "Returns the members around another, or stores them.",
        complexity: "O(N + log M) where N is the number of members in the squares around the area and M that of the set",
        args: "key:key member:string radius:double unit<M|KM|FT|MI> [WITHCOORD] [WITHDIST] \
               [WITHHASH] [count-block(COUNT@count:integer [ANY])] [order<ASC|DESC>] \
               [store<STORE@storekey:key{=key}|STOREDIST@storedistkey:key{=key}>]",
        handler: georadius,
        ..Command::BASE
    },
    Command {
        name: "georadiusbymember_ro",
        arity: -5,
        flags: Flags::READONLY,
        categories: Categories::GEO,
        keys: &[KeySpec::one("RO access", 1)],
        group: "geo",
        since: "3.2.10",
        history: &[
            ("6.2.0", "Knows `ANY` behind `COUNT`."),
            ("7.0.0", "Takes units in upper case."),
        ],
        summary: "Returns the members around another.",
        complexity: "O(N + log M) where N is the number of members in the squares around the area and M that of the set",
        args: "key:key member:string radius:double unit<M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [count-block(COUNT@count:integer [ANY])] [order<ASC|DESC>]",
        handler: georadius,
        ..Command::BASE
    },
    Command {
        name: "geosearch",
        arity: -7,
        flags: Flags::READONLY,
        categories: Categories::GEO,
        keys: &[KeySpec::one("RO access", 1)],
        group: "geo",
        since: "6.2.0",
        history: &[
            ("7.0.0", "Takes units in upper case."),
            ("9.0.0", "Knows `BYPOLYGON`."),
        ],
        summary: "Returns the members within a circle, a box or a polygon.",
        complexity: "O(N + log M) where N is the number of members in the squares around the area and M that of the set",
        args: "key:key [from<FROMMEMBER@member:string|FROMLONLAT@fromlonlat(longitude:double \
               latitude:double)>] by<circle(BYRADIUS@radius:double unit<M|KM|FT|MI>)|\
               box(BYBOX@width:double height:double unit<M|KM|FT|MI>)|\
               polygon(BYPOLYGON@num-vertices:integer vertices(longitude:double \
               latitude:double)...){9.0.0}> [order<ASC|DESC>] [count-block(COUNT@count:integer \
               [ANY])] [WITHCOORD] [WITHDIST] [WITHHASH]",
        handler: geosearch,
        ..Command::BASE
    },
    Command {
        name: "geosearchstore",
        arity: -8,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::GEO,
        keys: &[KeySpec::one("OW update", 1), KeySpec::one("RO access", 2)],
        group: "geo",
        since: "6.2.0",
        history: &[
            ("7.0.0", "Takes units in upper case."),
            ("9.0.0", "Knows `BYPOLYGON`."),
        ],
        summary: "Stores the members within a circle, a box or a polygon in another key.",
        complexity: "O(N + log M) where N is the number of members in the squares around the area and M that of the set",
        args: "destination:key source:key [from<FROMMEMBER@member:string|\
               FROMLONLAT@fromlonlat(longitude:double latitude:double)>] \
               by<circle(BYRADIUS@radius:double unit<M|KM|FT|MI>)|box(BYBOX@width:double \
               height:double unit<M|KM|FT|MI>)|polygon(BYPOLYGON@num-vertices:integer \
               vertices(longitude:double latitude:double)...){9.0.0}> [order<ASC|DESC>] \
               [count-block(COUNT@count:integer [ANY])] [STOREDIST]",
        handler: geosearchstore,
        ..Command::BASE
    },
];

const UNIT: Error = Error::text("ERR unsupported unit provided. please use M, KM, FT, MI");
const RADIUS: Error = Error::text("ERR need numeric radius");
const NEGATIVE_RADIUS: Error = Error::text("ERR radius cannot be negative");
const WIDTH: Error = Error::text("ERR need numeric width");
const HEIGHT: Error = Error::text("ERR need numeric height");
const NEGATIVE_SIZE: Error = Error::text("ERR height or width cannot be negative");
const VERTICES: Error = Error::text("ERR invalid number of vertices");
const TOO_FEW_VERTICES: Error =
    Error::text("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices");
const COUNT: Error = Error::text("ERR COUNT must be > 0");
const ANY: Error = Error::text("ERR the ANY argument requires COUNT argument");
const GEORADIUS_STORE: Error = Error::text(
    "ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD \
     options",
);
const GEOSEARCH_STORE: Error = Error::text(
    "ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
);

/// What GEODIST counts in unless asked otherwise.
const METRE: f64 = 1.0;

fn geoadd(call: &mut Call<'_>) -> Result<(), Stop> {
    let mut options = call.options(2);
    let (mut absent, mut present, mut count_changes) = (false, false, false);
    loop {
        match () {
            () if options.take("NX") => absent = true,
            () if options.take("XX") => present = true,
            () if options.take("CH") => count_changes = true,
            () => break,
        }
    }
    let triples = options.rest();
    if !triples.len().is_multiple_of(3) || (absent && present) {
        return Err(Error::SYNTAX.into());
    }
    let places = triples.chunks_exact(3).map(|triple| {
        let point = parse_point(triple[0], triple[1])?;
        Ok((point.encode() as f64, triple[2]))
    });
    let places: Vec<(f64, &[u8])> = places.collect::<Result<_, Error>>()?;
    let limits = call.engine.config.hot.limits;
    let (added, updated) = call
        .engine
        .keys
        .upsert(call.arg(1), |set: &mut SortedSet| {
            let (mut added, mut updated) = (0, 0);
            let longest = places.iter().map(|(_, member)| member.len()).max();
            set.expect(places.len(), longest.unwrap_or(0), limits);
            for (score, member) in places {
                let old = set.score(member);
                if (absent && old.is_some()) || (present && old.is_none()) {
                    continue;
                }
                set.insert(member, score, limits);
                added += i64::from(old.is_none());
                updated += i64::from(old.is_some_and(|old| old != score));
            }
            let event = Event::sorted_set("zadd");
            ((added, updated), (added + updated > 0).then_some(event))
        })?;
    call.reply.integer(if count_changes {
        added + updated
    } else {
        added
    });
    Ok(())
}

fn geodist(call: &mut Call<'_>) -> Result<(), Stop> {
    let unit = match call.args.len() {
        4 => METRE,
        5 => parse_unit(call.arg(4))?,
        _ => return Err(Error::SYNTAX.into()),
    };
    let set = call.engine.keys.read_as::<SortedSet>(call.arg(1))?;
    let (one, other) = (place_of(set, call.args[2]), place_of(set, call.args[3]));
    match one.zip(other) {
        Some((one, other)) => write_distance(call.reply, one.distance(other) / unit),
        None => call.reply.null(),
    }
    Ok(())
}

fn geohash(call: &mut Call<'_>) -> Result<(), Stop> {
    let (members, reply) = (&call.args[2..], &mut *call.reply);
    let set = call.engine.keys.read_as::<SortedSet>(call.args[1])?;
    reply.array(members.len());
    for member in members {
        match place_of(set, member) {
            Some(point) => reply.bulk(&point.text()),
            None => reply.null(),
        }
    }
    Ok(())
}

fn geopos(call: &mut Call<'_>) -> Result<(), Stop> {
    let (members, reply) = (&call.args[2..], &mut *call.reply);
    let set = call.engine.keys.read_as::<SortedSet>(call.args[1])?;
    reply.array(members.len());
    for member in members {
        match place_of(set, member) {
            Some(point) => write_point(reply, point),
            None => reply.null_array(),
        }
    }
    Ok(())
}

fn georadius(call: &mut Call<'_>) -> Result<(), Stop> {
    let by_member = call.command.name.starts_with("georadiusbymember");
    call.engine.keys.read_as::<SortedSet>(call.arg(1))?;
    let (centre, radius_at) = if by_member {
        (member_place(call, call.arg(1), call.arg(2))?, 3)
    } else {
        (Some(parse_point(call.arg(2), call.arg(3))?), 4)
    };
    let mut search = Search::new(1.0);
    // Around a member of a missing key the radius does not matter.
    if let Some(centre) = centre {
        let radius = parse_radius(call.arg(radius_at))?;
        search.unit = parse_unit(call.arg(radius_at + 1))?;
        search.area = Some(Area::around(centre, Shape::Circle(radius * search.unit)));
    }
    let may_store = !call.command.name.ends_with("_ro");
    let mut options = call.options(radius_at + 2);
    while !options.is_empty() {
        if search.take(&mut options)? {
            continue;
        }
        let by_distance = options.len() > 1 && options.take("STOREDIST");
        if !may_store || !by_distance && (options.len() < 2 || !options.take("STORE")) {
            return Err(Error::SYNTAX.into());
        }
        let key = options.value()?;
        search.store = Some(Store {
            key,
            by_distance,
            event: "georadiusstore",
        });
    }
    if search.store.is_some() && search.details.count() > 0 {
        return Err(GEORADIUS_STORE.into());
    }
    search.run(call, call.arg(1))
}

fn geosearch(call: &mut Call<'_>) -> Result<(), Stop> {
    let search = parse_search(call, 1, None)?;
    search.run(call, call.arg(1))
}

fn geosearchstore(call: &mut Call<'_>) -> Result<(), Stop> {
    let store = Store {
        key: call.arg(1),
        by_distance: false,
        event: "geosearchstore",
    };
    let search = parse_search(call, 2, Some(store))?;
    search.run(call, call.arg(2))
}

/// Reads what GEOSEARCH and GEOSEARCHSTORE take, from the key to be searched on.
fn parse_search<'a>(
    call: &mut Call<'a>,
    key_at: usize,
    store: Option<Store<'a>>,
) -> Result<Search<'a>, Error> {
    let key = call.arg(key_at);
    call.engine.keys.read_as::<SortedSet>(key)?;
    let mut search = Search {
        store,
        ..Search::new(METRE)
    };
    let mut place = Place::default();
    let mut options = call.options(key_at + 1);
    while !options.is_empty() {
        if search.take(&mut options)? || place.take(call, key, &mut options, &mut search.unit)? {
            continue;
        }
        match &mut search.store {
            Some(store) if options.take("STOREDIST") => store.by_distance = true,
            _ => return Err(Error::SYNTAX),
        }
    }
    if search.store.is_some() && search.details.count() > 0 {
        return Err(GEOSEARCH_STORE);
    }
    search.area = place.finish(call)?;
    if search.any && search.count.is_none() {
        return Err(ANY);
    }
    Ok(search)
}

/// Where to search, as far as it was read.
#[derive(Default)]
struct Place {
    /// Outer `None`: not given. Inner `None`: a member of a missing key.
    centre: Option<Centre>,
    shape: Option<Shape>,
}

#[derive(Clone, Copy, PartialEq)]
enum Centre {
    At(Point),
    Member(Option<Point>),
}

impl Place {
    /// Takes the next option; false when it is none of these.
    fn take(
        &mut self,
        call: &mut Call<'_>,
        key: &[u8],
        options: &mut Options<'_>,
        unit: &mut f64,
    ) -> Result<bool, Error> {
        let behind = options.len() - 1;
        let is_polygon = matches!(self.shape, Some(Shape::Polygon(_)));
        let circle = matches!(self.shape, None | Some(Shape::Circle(_)));
        let rectangle = matches!(self.shape, None | Some(Shape::Box(..)));
        let by_member = !matches!(self.centre, Some(Centre::At(_))) && !is_polygon;
        let by_point = !matches!(self.centre, Some(Centre::Member(_))) && !is_polygon;
        if behind >= 1 && by_member && options.take("FROMMEMBER") {
            self.centre = Some(Centre::Member(member_place(call, key, options.value()?)?));
        } else if behind >= 2 && by_point && options.take("FROMLONLAT") {
            self.centre = Some(Centre::At(parse_point(options.value()?, options.value()?)?));
        } else if behind >= 2 && circle && options.take("BYRADIUS") {
            let radius = parse_radius(options.value()?)?;
            *unit = parse_unit(options.value()?)?;
            self.shape = Some(Shape::Circle(radius * *unit));
        } else if behind >= 3 && rectangle && options.take("BYBOX") {
            let width = parse_decimal(options.value()?).ok_or(WIDTH)?;
            let height = parse_decimal(options.value()?).ok_or(HEIGHT)?;
            if width < 0.0 || height < 0.0 {
                return Err(NEGATIVE_SIZE);
            }
            *unit = parse_unit(options.value()?)?;
            self.shape = Some(Shape::Box(width * *unit, height * *unit));
        } else if behind >= 1
            && self.shape.is_none()
            && self.centre.is_none()
            && options.take("BYPOLYGON")
        {
            self.shape = Some(Shape::Polygon(parse_corners(options)?));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// The area, or `None` where the key is missing anyway.
    fn finish(self, call: &Call<'_>) -> Result<Option<Area>, Error> {
        let name = String::from_utf8_lossy(call.arg(0)).into_owned();
        let one_of = |what: &str| {
            Error::owned(format!(
                "ERR exactly one of {what} can be specified for {name}"
            ))
        };
        match (self.centre, self.shape) {
            (_, Some(Shape::Polygon(corners))) => Ok(Some(Area::polygon(corners))),
            (None, _) => Err(one_of("FROMMEMBER or FROMLONLAT")),
            (_, None) => Err(one_of("BYRADIUS, BYBOX and BYPOLYGON")),
            (Some(Centre::At(point) | Centre::Member(Some(point))), Some(shape)) => {
                Ok(Some(Area::around(point, shape)))
            }
            (Some(Centre::Member(None)), _) => Ok(None),
        }
    }
}

fn parse_corners(options: &mut Options<'_>) -> Result<Vec<Point>, Error> {
    let count = options
        .int()
        .ok()
        .and_then(|count| i32::try_from(count).ok())
        .ok_or(VERTICES)?;
    let count = usize::try_from(count).unwrap_or(0);
    if count < 3 || options.len() < count.saturating_mul(2) {
        return Err(TOO_FEW_VERTICES);
    }
    (0..count)
        .map(|_| parse_point(options.value()?, options.value()?))
        .collect()
}

/// A search, and what becomes of what it finds.
struct Search<'a> {
    /// `None` for a key that is missing.
    area: Option<Area>,
    /// Metres in the unit of the request.
    unit: f64,
    count: Option<usize>,
    any: bool,
    order: Option<Order>,
    details: Details,
    store: Option<Store<'a>>,
}

/// What is shown of a member beside its name.
#[derive(Clone, Copy, Default)]
struct Details {
    distance: bool,
    hash: bool,
    point: bool,
}

impl Details {
    fn count(self) -> usize {
        [self.distance, self.hash, self.point]
            .into_iter()
            .filter(|&wanted| wanted)
            .count()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    NearestFirst,
    FarthestFirst,
}

#[derive(Clone, Copy)]
struct Store<'a> {
    key: &'a [u8],
    by_distance: bool,
    event: &'static str,
}

/// A member that a search found.
struct Found {
    member: Vec<u8>,
    score: f64,
    point: Point,
    /// In metres.
    distance: f64,
}

impl Search<'_> {
    fn new<'a>(unit: f64) -> Search<'a> {
        Search {
            area: None,
            unit,
            count: None,
            any: false,
            order: None,
            details: Details::default(),
            store: None,
        }
    }

    /// Takes the next option; false when it is none that all searches have.
    fn take(&mut self, options: &mut Options<'_>) -> Result<bool, Error> {
        match () {
            () if options.take("WITHDIST") => self.details.distance = true,
            () if options.take("WITHHASH") => self.details.hash = true,
            () if options.take("WITHCOORD") => self.details.point = true,
            () if options.take("ANY") => self.any = true,
            () if options.take("ASC") => self.order = Some(Order::NearestFirst),
            () if options.take("DESC") => self.order = Some(Order::FarthestFirst),
            () if options.len() > 1 && options.take("COUNT") => {
                let count = usize::try_from(options.int()?)
                    .ok()
                    .filter(|&count| count > 0);
                self.count = Some(count.ok_or(COUNT)?);
            }
            () => return Ok(false),
        }
        Ok(true)
    }

    fn run(mut self, call: &mut Call<'_>, key: &[u8]) -> Result<(), Stop> {
        if self.any && self.count.is_none() {
            return Err(ANY.into());
        }
        if self.count.is_some() && !self.any && self.order.is_none() {
            self.order = Some(Order::NearestFirst);
        }
        let set = call.engine.keys.read_as::<SortedSet>(key)?;
        let mut found = match (set, &self.area) {
            (Some(set), Some(area)) => self.find(set, area),
            _ => Vec::new(),
        };
        match self.order {
            Some(Order::NearestFirst) => {
                found.sort_by(|one, other| one.distance.total_cmp(&other.distance));
            }
            Some(Order::FarthestFirst) => {
                found.sort_by(|one, other| other.distance.total_cmp(&one.distance));
            }
            None => {}
        }
        found.truncate(self.count.unwrap_or(usize::MAX));
        match self.store {
            Some(store) => self.keep(call, store, &found),
            None => self.show(call.reply, &found),
        }
        Ok(())
    }

    fn find(&self, set: &SortedSet, area: &Area) -> Vec<Found> {
        let enough = if self.any {
            self.count.unwrap_or(usize::MAX)
        } else {
            usize::MAX
        };
        let bound = |bits: u64, exclusive| ScoreBound {
            score: bits as f64,
            exclusive,
        };
        let mut found = Vec::new();
        for range in area.ranges() {
            let ranks = set.ranks_by_score(bound(range.start, false), bound(range.end, true));
            for (member, score) in set.range(ranks.start, ranks.len()) {
                if found.len() == enough {
                    return found;
                }
                let point = Point::decode(bits_of(score));
                if let Some(distance) = area.distance_within(point) {
                    found.push(Found {
                        member: member.to_vec(),
                        score,
                        point,
                        distance,
                    });
                }
            }
        }
        found
    }

    fn show(&self, reply: &mut dyn Reply, found: &[Found]) {
        let details = self.details.count();
        reply.array(found.len());
        for one in found {
            if details > 0 {
                reply.array(1 + details);
            }
            reply.bulk(&one.member);
            if self.details.distance {
                write_distance(reply, one.distance / self.unit);
            }
            if self.details.hash {
                reply.integer(bits_of(one.score) as i64);
            }
            if self.details.point {
                write_point(reply, one.point);
            }
        }
    }

    fn keep(&self, call: &mut Call<'_>, store: Store<'_>, found: &[Found]) {
        let limits = call.engine.config.hot.limits;
        let mut set = SortedSet::new();
        for one in found {
            let score = if store.by_distance {
                one.distance / self.unit
            } else {
                one.score
            };
            set.insert(&one.member, score, limits);
        }
        if found.is_empty() {
            call.engine.keys.delete(store.key, Event::generic("del"));
        } else {
            let event = Event::sorted_set(store.event);
            call.engine
                .keys
                .put(store.key, set.into_value(), Ttl::Clear, event);
        }
        call.reply.integer(found.len() as i64);
    }
}

fn place_of(set: Option<&SortedSet>, member: &[u8]) -> Option<Point> {
    let score = set?.score(member)?;
    Some(Point::decode(bits_of(score)))
}

/// The place of a member that must exist if the key does.
fn member_place(call: &mut Call<'_>, key: &[u8], member: &[u8]) -> Result<Option<Point>, Error> {
    let Some(set) = call.engine.keys.read_as::<SortedSet>(key)? else {
        return Ok(None);
    };
    let missing = || Error::quoting([b"ERR member ", member, b" does not exist"]);
    place_of(Some(set), member).map(Some).ok_or_else(missing)
}

/// A score as a geohash. Scores that none has become what the references make of them.
fn bits_of(score: f64) -> u64 {
    const TOO_LARGE: f64 = 18_446_744_073_709_551_616.0;
    if score < 0.0 {
        score as i64 as u64
    } else if score < TOO_LARGE {
        score as u64
    } else {
        0
    }
}

fn parse_point(longitude: &[u8], latitude: &[u8]) -> Result<Point, Error> {
    let longitude = parse_decimal(longitude).ok_or(Error::NOT_A_FLOAT)?;
    let latitude = parse_decimal(latitude).ok_or(Error::NOT_A_FLOAT)?;
    let point = Point {
        longitude,
        latitude,
    };
    if point.is_valid() {
        return Ok(point);
    }
    Err(Error::owned(format!(
        "ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"
    )))
}

fn parse_radius(text: &[u8]) -> Result<f64, Error> {
    match parse_decimal(text).ok_or(RADIUS)? {
        radius if radius < 0.0 => Err(NEGATIVE_RADIUS),
        radius => Ok(radius),
    }
}

/// Metres in a unit.
fn parse_unit(text: &[u8]) -> Result<f64, Error> {
    let units = [
        ("M", METRE),
        ("KM", 1000.0),
        ("FT", 0.3048),
        ("MI", 1609.34),
    ];
    let found = units.into_iter().find(|(word, _)| is_word(text, word));
    found.map(|(_, metres)| metres).ok_or(UNIT)
}

fn write_distance(reply: &mut dyn Reply, distance: f64) {
    reply.bulk(format!("{distance:.4}").as_bytes());
}

fn write_point(reply: &mut dyn Reply, point: Point) {
    reply.array(2);
    for degrees in [point.longitude, point.latitude] {
        let digits = format!("{degrees:.17}");
        reply.decimal(digits.trim_end_matches('0').trim_end_matches('.'));
    }
}
