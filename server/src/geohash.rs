//! Places on Earth as 52-bit numbers that sort near what is near.
//!
//! Longitude and latitude are cut into 2^26 steps each and their bits interleaved, longitude
//! first, so that a square area is a range of numbers. Latitude ends where the Web Mercator
//! projection does. A search covers its shape with nine such squares and tests what lies within.
//! Every expression is evaluated as the references do it, down to the order of multiplications:
//! clients compare digits.

use std::ops::Range;

/// The mean radius of Earth, in metres.
const EARTH_RADIUS: f64 = 6_372_797.560_856;
/// Half the equator in the projection, in metres.
const MERCATOR_MAX: f64 = 20_037_726.37;

const STEPS_MAX: u32 = 26;
const LONGITUDES: Bounds = Bounds {
    min: -180.0,
    max: 180.0,
};
const LATITUDES: Bounds = Bounds {
    min: -85.051_128_78,
    max: 85.051_128_78,
};
/// What the textual form counts in, which knows no projection.
const ALL_LATITUDES: Bounds = Bounds {
    min: -90.0,
    max: 90.0,
};

const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// A place, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// East of Greenwich, -180 to 180.
    pub longitude: f64,
    /// North of the equator, -85.05112878 to 85.05112878.
    pub latitude: f64,
}

/// What a search covers.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// All that is no further from the centre than so many metres.
    Circle(f64),
    /// A rectangle around the centre: its width along the parallel and its height, in metres.
    Box(f64, f64),
    /// What these corners enclose.
    Polygon(Vec<Point>),
}

/// A shape in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Area {
    centre: Point,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    min: f64,
    max: f64,
}

impl Bounds {
    fn contain(self, value: f64) -> bool {
        (self.min..=self.max).contains(&value)
    }

    /// Which of `2^steps` equal parts the value lies in.
    fn part_of(self, value: f64, steps: u32) -> u32 {
        let share = (value - self.min) / (self.max - self.min);
        (share * f64::from(1u32 << steps)) as u32
    }

    /// The bounds of one of `2^steps` equal parts.
    fn part(self, nth: u32, steps: u32) -> Bounds {
        let at = |nth: f64| self.min + (nth / f64::from(1u32 << steps)) * (self.max - self.min);
        Bounds {
            min: at(f64::from(nth)),
            max: at(f64::from(nth) + 1.0),
        }
    }

    fn middle(self) -> f64 {
        f64::midpoint(self.min, self.max)
    }
}

impl Point {
    /// Whether the place can be encoded.
    pub fn is_valid(self) -> bool {
        LONGITUDES.contain(self.longitude) && LATITUDES.contain(self.latitude)
    }

    /// The number that stands for the place.
    pub fn encode(self) -> u64 {
        Cell::around(self, STEPS_MAX).bits()
    }

    /// The middle of the square that a number stands for.
    pub fn decode(bits: u64) -> Point {
        let (longitudes, latitudes) = Cell::from_bits(bits).bounds();
        Point {
            longitude: longitudes.middle().clamp(LONGITUDES.min, LONGITUDES.max),
            latitude: latitudes.middle().clamp(LATITUDES.min, LATITUDES.max),
        }
    }

    /// The textual form: eleven characters, of which the last says nothing.
    pub fn text(self) -> [u8; 11] {
        let bits = interleave(
            LONGITUDES.part_of(self.longitude, STEPS_MAX),
            ALL_LATITUDES.part_of(self.latitude, STEPS_MAX),
        );
        let mut text = [ALPHABET[0]; 11];
        for (nth, character) in text[..10].iter_mut().enumerate() {
            *character = ALPHABET[(bits >> (47 - 5 * nth)) as usize & 31];
        }
        text
    }

    /// How far another place is, in metres along the surface.
    pub fn distance(self, other: Point) -> f64 {
        let (longitude, other_longitude) = (radians(self.longitude), radians(other.longitude));
        let v = ((other_longitude - longitude) / 2.0).sin();
        if v == 0.0 {
            return distance_along_meridian(self.latitude, other.latitude);
        }
        let (latitude, other_latitude) = (radians(self.latitude), radians(other.latitude));
        let u = ((other_latitude - latitude) / 2.0).sin();
        let a = u * u + latitude.cos() * other_latitude.cos() * v * v;
        2.0 * EARTH_RADIUS * a.sqrt().asin()
    }
}

impl Area {
    /// A circle or a box around a place. A polygon has its own centre: see [`Area::polygon`].
    pub fn around(centre: Point, shape: Shape) -> Area {
        Area { centre, shape }
    }

    /// A polygon with these corners.
    pub fn polygon(corners: Vec<Point>) -> Area {
        Area {
            centre: centroid(&corners),
            shape: Shape::Polygon(corners),
        }
    }

    /// How far a place is from the centre, in metres, if it lies within.
    pub fn distance_within(&self, point: Point) -> Option<f64> {
        let distance = self.centre.distance(point);
        let within = match &self.shape {
            Shape::Circle(radius) => distance <= *radius,
            Shape::Box(width, height) => {
                let level = Point {
                    latitude: point.latitude,
                    ..self.centre
                };
                distance_along_meridian(point.latitude, self.centre.latitude) <= height / 2.0
                    && point.distance(level) <= width / 2.0
            }
            Shape::Polygon(corners) => encloses(corners, point),
        };
        within.then_some(distance)
    }

    /// The ranges of numbers that together hold everything within, in the order in which the
    /// references look at them.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        if !self.centre.is_valid() {
            // A polygon around a pole: there is no cell to start from.
            return Vec::new();
        }
        let cells = self.cells();
        let mut ranges = Vec::with_capacity(cells.len());
        let mut previous = None;
        for (nth, cell) in cells.into_iter().enumerate() {
            let Some(cell) = cell else { continue };
            // Near a pole or with huge shapes, neighbours can be the same. The first one is
            // never compared, which the references do not either.
            if previous == Some(cell) {
                continue;
            }
            ranges.push(cell.range());
            if nth > 0 {
                previous = Some(cell);
            }
        }
        ranges
    }

    /// The centre's cell and its neighbours, without those that cannot hold anything within.
    fn cells(&self) -> [Option<Cell>; 9] {
        let (longitudes, latitudes) = self.bounding_box();
        let mut steps = steps_for(self.radius(), self.centre.latitude);
        let reaches = |cell: Cell| {
            let north = cell.moved(0, 1).bounds().1.max;
            let south = cell.moved(0, -1).bounds().1.min;
            let east = cell.moved(1, 0).bounds().0.max;
            let west = cell.moved(-1, 0).bounds().0.min;
            north >= latitudes.max
                && south <= latitudes.min
                && east >= longitudes.max
                && west <= longitudes.min
        };
        if steps > 1 && !reaches(Cell::around(self.centre, steps)) {
            steps -= 1;
        }
        let centre = Cell::around(self.centre, steps);
        let (own_longitudes, own_latitudes) = centre.bounds();
        let prune = steps >= 2;
        let no_south = prune && own_latitudes.min < latitudes.min;
        let no_north = prune && own_latitudes.max > latitudes.max;
        let no_west = prune && own_longitudes.min < longitudes.min;
        let no_east = prune && own_longitudes.max > longitudes.max;
        NEIGHBOURS.map(|(east, north)| {
            let useless = (north < 0 && no_south)
                || (north > 0 && no_north)
                || (east < 0 && no_west)
                || (east > 0 && no_east);
            (!useless).then(|| centre.moved(east, north))
        })
    }

    /// The longitudes and latitudes that the shape reaches to.
    fn bounding_box(&self) -> (Bounds, Bounds) {
        let (half_width, half_height) = match &self.shape {
            Shape::Circle(radius) => (*radius, *radius),
            Shape::Box(width, height) => (width / 2.0, height / 2.0),
            Shape::Polygon(corners) => return bounds_of(corners),
        };
        let Point {
            longitude,
            latitude,
        } = self.centre;
        let up = degrees(half_height / EARTH_RADIUS);
        // The edge nearer to the pole spans the most degrees.
        let edge = if latitude < 0.0 {
            latitude - up
        } else {
            latitude + up
        };
        let aside = degrees(half_width / EARTH_RADIUS / radians(edge).cos());
        (
            Bounds {
                min: longitude - aside,
                max: longitude + aside,
            },
            Bounds {
                min: latitude - up,
                max: latitude + up,
            },
        )
    }

    fn radius(&self) -> f64 {
        match &self.shape {
            Shape::Circle(radius) => *radius,
            Shape::Box(width, height) => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
            }
            Shape::Polygon(corners) => {
                let (longitudes, latitudes) = bounds_of(corners);
                let ends = |bounds: Bounds| [bounds.min, bounds.max];
                let box_corners = ends(longitudes).into_iter().flat_map(|longitude| {
                    ends(latitudes).map(|latitude| Point {
                        longitude,
                        latitude,
                    })
                });
                box_corners
                    .map(|corner| self.centre.distance(corner))
                    .fold(0.0, f64::max)
            }
        }
    }
}

/// Steps east and north, in the order of the references.
const NEIGHBOURS: [(i32, i32); 9] = [
    (0, 0),
    (0, 1),
    (0, -1),
    (1, 0),
    (-1, 0),
    (1, 1),
    (-1, 1),
    (1, -1),
    (-1, -1),
];

/// A rectangle of the grid that is `2^steps` wide and high.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    east: u32,
    north: u32,
    steps: u32,
}

impl Cell {
    fn around(point: Point, steps: u32) -> Cell {
        Cell {
            east: LONGITUDES.part_of(point.longitude, steps),
            north: LATITUDES.part_of(point.latitude, steps),
            steps,
        }
    }

    fn from_bits(bits: u64) -> Cell {
        Cell {
            east: every_other(bits >> 1),
            north: every_other(bits),
            steps: STEPS_MAX,
        }
    }

    fn bits(self) -> u64 {
        interleave(self.east, self.north)
    }

    fn bounds(self) -> (Bounds, Bounds) {
        (
            LONGITUDES.part(self.east, self.steps),
            LATITUDES.part(self.north, self.steps),
        )
    }

    /// The cell so many further, around the world.
    fn moved(self, east: i32, north: i32) -> Cell {
        let mask = (1u32 << self.steps) - 1;
        let step = |from: u32, by: i32| {
            if by == 0 {
                from
            } else {
                from.wrapping_add_signed(by) & mask
            }
        };
        Cell {
            east: step(self.east, east),
            north: step(self.north, north),
            steps: self.steps,
        }
    }

    fn range(self) -> Range<u64> {
        let unused = 2 * (STEPS_MAX - self.steps);
        self.bits() << unused..(self.bits() + 1) << unused
    }
}

/// How finely to cut so that a cell and its neighbours cover the radius.
fn steps_for(mut radius: f64, latitude: f64) -> u32 {
    if radius == 0.0 {
        return STEPS_MAX;
    }
    let mut steps: i32 = 1;
    while radius < MERCATOR_MAX {
        radius *= 2.0;
        steps += 1;
    }
    steps -= 2;
    // Cells narrow towards the poles.
    if latitude.abs() > 66.0 {
        steps -= 1;
    }
    if latitude.abs() > 80.0 {
        steps -= 1;
    }
    steps.clamp(1, STEPS_MAX as i32) as u32
}

fn distance_along_meridian(from: f64, to: f64) -> f64 {
    EARTH_RADIUS * (radians(to) - radians(from)).abs()
}

fn bounds_of(corners: &[Point]) -> (Bounds, Bounds) {
    let bounds = |each: fn(&Point) -> f64| Bounds {
        min: corners.iter().map(each).fold(f64::INFINITY, f64::min),
        max: corners.iter().map(each).fold(f64::NEG_INFINITY, f64::max),
    };
    (
        bounds(|corner| corner.longitude),
        bounds(|corner| corner.latitude),
    )
}

/// The middle of the corners, taken in space and brought back to the surface.
fn centroid(corners: &[Point]) -> Point {
    let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
    for corner in corners {
        let (longitude, latitude) = (radians(corner.longitude), radians(corner.latitude));
        x += latitude.cos() * longitude.cos();
        y += latitude.cos() * longitude.sin();
        z += latitude.sin();
    }
    Point {
        longitude: degrees(y.atan2(x)),
        latitude: degrees(z.atan2((x * x + y * y).sqrt())),
    }
}

/// Whether a ray from the point eastwards crosses the edges an odd number of times.
fn encloses(corners: &[Point], point: Point) -> bool {
    let mut inside = false;
    let mut previous = corners.last();
    for corner in corners {
        if let Some(from) = previous
            && (corner.latitude > point.latitude) != (from.latitude > point.latitude)
        {
            let share = (point.latitude - corner.latitude) / (from.latitude - corner.latitude);
            let crossing = (from.longitude - corner.longitude) * share + corner.longitude;
            if point.longitude < crossing {
                inside = !inside;
            }
        }
        previous = Some(corner);
    }
    inside
}

fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (std::f64::consts::PI / 180.0)
}

/// Bits of the longitude at odd places, of the latitude at even ones.
fn interleave(east: u32, north: u32) -> u64 {
    spread(north) | spread(east) << 1
}

fn spread(word: u32) -> u64 {
    let mut bits = u64::from(word);
    for (shift, mask) in SPREAD_STEPS {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

fn every_other(bits: u64) -> u32 {
    let mut bits = bits & 0x5555_5555_5555_5555;
    for (shift, mask) in GATHER_STEPS {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

/// How far groups of bits move apart, and where they then are.
const SPREAD_STEPS: [(u32, u64); 5] = [
    (16, 0x0000_ffff_0000_ffff),
    (8, 0x00ff_00ff_00ff_00ff),
    (4, 0x0f0f_0f0f_0f0f_0f0f),
    (2, 0x3333_3333_3333_3333),
    (1, 0x5555_5555_5555_5555),
];

/// The way back.
const GATHER_STEPS: [(u32, u64); 5] = [
    (1, 0x3333_3333_3333_3333),
    (2, 0x0f0f_0f0f_0f0f_0f0f),
    (4, 0x00ff_00ff_00ff_00ff),
    (8, 0x0000_ffff_0000_ffff),
    (16, 0x0000_0000_ffff_ffff),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::random::Random;

    const fn at(longitude: f64, latitude: f64) -> Point {
        Point {
            longitude,
            latitude,
        }
    }

    const PALERMO: Point = at(13.361_389, 38.115_556);
    const CATANIA: Point = at(15.087_269, 37.502_669);

    /// A value from -limit to limit.
    fn up_to(random: &mut Random, limit: f64) -> f64 {
        (random.below(1 << 52) as f64 / (1u64 << 51) as f64 - 1.0) * limit
    }

    fn anywhere(random: &mut Random) -> Point {
        at(up_to(random, LONGITUDES.max), up_to(random, LATITUDES.max))
    }

    #[test]
    fn numbers_texts_and_digits_are_those_of_the_reference() {
        let recorded = [
            (
                PALERMO,
                3_479_099_956_230_698,
                "13.36138933897018433",
                "38.11555639549629859",
            ),
            (
                CATANIA,
                3_479_447_370_796_909,
                "15.08726745843887329",
                "37.50266842333162032",
            ),
            (
                at(-180.0, LATITUDES.min),
                0,
                "-179.99999731779098511",
                "-85.05112751263942528",
            ),
            (
                at(180.0, LATITUDES.max),
                13_510_798_882_111_488,
                "180.00000000000000000",
                "85.05112877999999910",
            ),
        ];
        for (point, bits, longitude, latitude) in recorded {
            assert_eq!(point.encode(), bits);
            let decoded = Point::decode(bits);
            assert_eq!(format!("{:.17}", decoded.longitude), longitude);
            assert_eq!(format!("{:.17}", decoded.latitude), latitude);
        }
        let text = |point: Point| Point::decode(point.encode()).text();
        assert_eq!(&text(PALERMO), b"sqc8b49rny0");
        assert_eq!(&text(CATANIA), b"sqdtr74hyu0");
    }

    #[test]
    fn distances_are_those_of_the_reference() {
        let decoded = |point: Point| Point::decode(point.encode());
        let distance = decoded(PALERMO).distance(decoded(CATANIA));
        assert_eq!(format!("{distance:.4}"), "166274.1516");
        assert_eq!(decoded(PALERMO).distance(decoded(PALERMO)), 0.0);
        let area = Area::around(at(15.0, 37.0), Shape::Circle(200_000.0));
        let within = area.distance_within(decoded(CATANIA)).unwrap();
        assert_eq!(format!("{within:.4}"), "56441.2579");
        let corners = vec![
            at(10.0, 30.0),
            at(20.0, 30.0),
            at(20.0, 40.0),
            at(10.0, 40.0),
        ];
        let within = Area::polygon(corners)
            .distance_within(decoded(CATANIA))
            .unwrap();
        assert_eq!(format!("{within:.4}"), "267053.9696");
    }

    #[test]
    fn places_come_back_to_within_the_grid() {
        let mut random = Random::new(1);
        for _ in 0..10_000 {
            let point = anywhere(&mut random);
            let decoded = Point::decode(point.encode());
            assert!((decoded.longitude - point.longitude).abs() < 360.0 / 2f64.powi(26));
            assert!((decoded.latitude - point.latitude).abs() < 171.0 / 2f64.powi(26));
            assert_eq!(decoded.encode(), point.encode());
        }
    }

    #[test]
    fn ranges_miss_nothing_within_that_is_not_near_an_edge_of_the_map() {
        let mut random = Random::new(2);
        for _ in 0..300 {
            let centre = at(up_to(&mut random, 100.0), up_to(&mut random, 60.0));
            let size = 10f64.powf(up_to(&mut random, 2.0) + 3.5);
            let shape = match random.below(2) {
                0 => Shape::Circle(size),
                _ => Shape::Box(size, size * 2.0),
            };
            let area = Area::around(centre, shape);
            let ranges = area.ranges();
            for _ in 0..100 {
                let degrees = size / 50_000.0;
                let near = at(
                    centre.longitude + up_to(&mut random, degrees),
                    (centre.latitude + up_to(&mut random, degrees)).clamp(-85.0, 85.0),
                );
                let bits = near.encode();
                if area.distance_within(Point::decode(bits)).is_some() {
                    assert!(
                        ranges.iter().any(|range| range.contains(&bits)),
                        "{area:?} {near:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_huge_shape_looks_nowhere_twice() {
        for radius in [5e6, 2e7, 1e9] {
            let ranges = Area::around(at(10.0, 10.0), Shape::Circle(radius)).ranges();
            for (nth, range) in ranges.iter().enumerate() {
                assert!(
                    ranges[nth + 1..].iter().all(|other| other != range),
                    "{radius}"
                );
            }
        }
    }
}
