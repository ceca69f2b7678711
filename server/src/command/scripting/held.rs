//! What the engine holds for scripts between their runs.

use std::sync::Arc;

use super::{Command, lookup};
use crate::script::{Control, Functions, MEMORY_LIMIT, Scripts};

/// The cached scripts, the libraries, and the block by which others see and end what runs.
pub struct Scripting {
    pub control: Arc<Control>,
    /// None while no script has come, or while one runs.
    pub scripts: Option<Box<Scripts>>,
    /// None while none was loaded, or while a function runs.
    pub functions: Option<Box<Functions>>,
    pub recent_commands: RecentCommands,
    memory_limit: usize,
}

impl Default for Scripting {
    fn default() -> Self {
        Scripting {
            control: Arc::default(),
            scripts: None,
            functions: None,
            recent_commands: RecentCommands::default(),
            memory_limit: MEMORY_LIMIT,
        }
    }
}

impl Scripting {
    /// Limits what the Lua state of scripts may occupy, and that of functions, in bytes.
    pub fn set_memory_limit(&mut self, bytes: usize) {
        self.memory_limit = bytes;
        if let Some(scripts) = &mut self.scripts {
            scripts.set_memory_limit(bytes);
        }
        if let Some(functions) = &mut self.functions {
            functions.set_memory_limit(bytes);
        }
    }

    /// Takes the function libraries out, to be put back.
    pub fn take_functions(&mut self) -> Box<Functions> {
        if let Some(functions) = self.functions.take() {
            return functions;
        }
        let mut functions = Functions::new(Arc::clone(&self.control));
        functions.set_memory_limit(self.memory_limit);
        Box::new(functions)
    }

    /// Takes the scripts out, to be put back; makes their cache when the first one comes.
    pub fn take_scripts(&mut self) -> Box<Scripts> {
        if let Some(scripts) = self.scripts.take() {
            return scripts;
        }
        let mut scripts = Scripts::new(Arc::clone(&self.control));
        scripts.set_memory_limit(self.memory_limit);
        Box::new(scripts)
    }

    /// How many scripts are cached.
    pub fn cached(&self) -> usize {
        self.scripts.as_deref().map_or(0, Scripts::len)
    }

    /// How many scripts have been evicted since the start.
    pub fn evicted(&self) -> u64 {
        self.scripts.as_deref().map_or(0, Scripts::evicted)
    }

    /// What the Lua state of scripts occupies, and that of functions, in bytes.
    pub fn used_memory(&self) -> (usize, usize) {
        (
            self.scripts.as_deref().map_or(0, Scripts::used_memory),
            self.functions.as_deref().map_or(0, Functions::used_memory),
        )
    }
}

/// Commands that scripts named lately, by the very spelling: most look-ups end here.
pub struct RecentCommands([Option<(u128, &'static Command)>; 64]);

impl Default for RecentCommands {
    fn default() -> Self {
        RecentCommands([None; 64])
    }
}

impl RecentCommands {
    pub fn find(&mut self, args: &[&[u8]]) -> Option<&'static Command> {
        let Some(spelling) = spelling(args.first()?) else {
            return lookup(args).ok();
        };
        let mixed = (spelling as u64 ^ (spelling >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let slot = &mut self.0[(mixed >> 58) as usize];
        match slot {
            Some((recent, command)) if *recent == spelling => Some(command),
            _ => {
                let command = lookup(args).ok()?;
                // Whether a subcommand is meant depends on the next argument.
                if !command.name.contains('|') && command.subcommands.is_empty() {
                    *slot = Some((spelling, command));
                }
                Some(command)
            }
        }
    }
}

/// A name of up to fifteen bytes as a number, its length on top.
fn spelling(name: &[u8]) -> Option<u128> {
    let mut bytes = [0; 16];
    bytes
        .get_mut(..name.len())
        .filter(|_| name.len() < 16)?
        .copy_from_slice(name);
    bytes[15] = name.len() as u8;
    Some(u128::from_le_bytes(bytes))
}
