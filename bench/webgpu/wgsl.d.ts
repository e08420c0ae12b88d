// tools/build.mjs puts these files into the scripts as text.
declare module '*.wgsl' {
  const source: string;
  export default source;
}
