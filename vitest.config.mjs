// Unit tests of the TypeScript: they sit beside their source, as x_test.ts or x.test.ts.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['{web,apps,bench,tests}/**/*{_,.}test.ts'],
    exclude: ['**/node_modules/**', '**/dist/**'],
    environment: 'node',
  },
});
