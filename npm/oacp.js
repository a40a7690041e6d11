#!/usr/bin/env node
// Starts oacp from the package of this system, which npm installs as an optional dependency of this one. Each other
// program has a file that only requires this one, and gives its name to the program.
'use strict';

const { spawn } = require('node:child_process');
const { basename } = require('node:path');
const { optionalDependencies: builds, version } = require('./package.json');

function fail(problem, hint) {
  process.stderr.write(`oacp: ${problem}\nhint: ${hint}\n`);
  process.exit(1);
}

function find() {
  const system = `${process.platform}-${process.arch}`;
  const build = `@oacp-go/${system}`;
  if (!builds[build]) {
    fail(`there is no build for ${system}`, 'build it from source: https://github.com/oacp-go/oacp');
  }
  try {
    if (require(`${build}/package.json`).version === version) {
      return require.resolve(`${build}/bin/${basename(require.main.filename, '.js')}${process.platform === 'win32' ? '.exe' : ''}`);
    }
  } catch {
    // It is not installed, or not completely.
  }
  fail(`${build} ${version}, an optional dependency with the program, is not installed`,
    'install @oacp-go/oacp again, with --include=optional; a copied node_modules folder has the program of the other system');
}

const program = find();
const args = process.argv.slice(2);
if (process.execve && process.platform !== 'win32') {
  process.emitWarning = () => {}; // that execve is experimental
  process.execve(program, [program, ...args]); // does not return
}

// oacp takes the process that called it for a session, unless it is this one.
const child = spawn(program, args, { stdio: 'inherit', env: { ...process.env, OACP_LAUNCHER: String(process.pid) } });
child.on('error', (error) => fail(`${program}: ${error.message}`, 'install @oacp-go/oacp again'));
process.on('SIGINT', () => {}); // a terminal sends it to both
for (const signal of ['SIGTERM', 'SIGHUP']) {
  process.on(signal, () => child.kill(signal));
}
child.on('exit', (status, signal) => {
  if (!signal) {
    process.exit(status);
  }
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
