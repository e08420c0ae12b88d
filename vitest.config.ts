// Unit tests beside their source by suffix, as in C++: x_test.ts. What needs the built program is in
// tests/ and run by Node's own test runner.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: [
      'web/**/*_test.ts',
      'apps/**/*_test.ts',
      'bench/**/*_test.ts',
      'tools/abi/*_test.mjs',
    ],
    exclude: ['**/node_modules/**', '**/dist/**'],
    testTimeout: 20_000,
  },
});
