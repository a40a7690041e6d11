// Packs the npm packages from what goreleaser built: node npm/pack.mjs, in the top folder. There is one package with the
// programs for each system, and @oacp-go/oacp with a script that starts those of its system. They come to dist/npm.
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const top = 'dist/npm';
const json = (file) => JSON.parse(readFileSync(file, 'utf8'));
const { version } = json('dist/metadata.json');
const common = {
  version,
  license: 'MIT',
  homepage: 'https://github.com/oacp-go/oacp',
  repository: { type: 'git', url: 'git+https://github.com/oacp-go/oacp.git' },
};

function pack(folder, manifest) {
  cpSync('LICENSE', join(folder, 'LICENSE'));
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...manifest, ...common }, null, 2));
  execFileSync('npm', ['pack', '--silent', '--pack-destination', top, `./${folder}`], { stdio: 'inherit', shell: process.platform === 'win32' });
}

rmSync(top, { recursive: true, force: true });
const systems = new Map(); // name -> programs
for (const built of json('dist/artifacts.json').filter((artifact) => artifact.type === 'Binary')) {
  const os = built.goos === 'windows' ? 'win32' : built.goos;
  const cpu = built.goarch === 'amd64' ? 'x64' : built.goarch;
  const name = `${os}-${cpu}`;
  systems.set(name, { os, cpu, programs: [...(systems.get(name)?.programs ?? []), built] });
}
for (const [name, { os, cpu, programs }] of systems) {
  const folder = join(top, name);
  mkdirSync(join(folder, 'bin'), { recursive: true });
  for (const program of programs) {
    cpSync(program.path, join(folder, 'bin', program.name));
    chmodSync(join(folder, 'bin', program.name), 0o755);
  }
  pack(folder, { name: `@oacp-go/${name}`, description: `The programs of oacp for ${name}`, os: [os], cpu: [cpu], preferUnplugged: true });
}

const wrapper = join(top, 'oacp');
mkdirSync(wrapper, { recursive: true });
const programs = [...new Set([...systems.values()].flatMap((system) => system.programs.map((program) => program.name.replace('.exe', ''))))];
for (const program of programs) {
  writeFileSync(join(wrapper, `${program}.js`), "#!/usr/bin/env node\nrequire('./oacp.js');\n", { mode: 0o755 });
}
cpSync('npm/oacp.js', join(wrapper, 'oacp.js'));
cpSync('README.md', join(wrapper, 'README.md'));
cpSync('dist-files/man', join(wrapper, 'man'), { recursive: true });
pack(wrapper, {
  name: '@oacp-go/oacp',
  description: 'Messages between coding agents, as files in a shared folder',
  bin: Object.fromEntries(programs.map((program) => [program, `${program}.js`])),
  man: readdirSync('dist-files/man').map((page) => `./man/${page}`),
  engines: { node: '>=20' },
  optionalDependencies: Object.fromEntries([...systems.keys()].sort().map((name) => [`@oacp-go/${name}`, version])),
});
