// Subjects that run in pages of one Chromium: each has a page of its own, on a server of ours.
import type { BrowserContext, Page } from 'playwright-core';
import {
  closeChromium,
  launchChromium,
  makeProfile,
  removeProfile,
} from '../../apps/cli/src/hosts.js';
import {
  kContentSecurityPolicy,
  startServer,
  type RunningServer,
} from '../../apps/cli/src/server.js';
import { EngineError } from '../../web/src/api/index.js';
import type { Case, Sample } from './cases.js';
import type { PageReply, PageSetup } from './page_globals.js';
import type { About, Runner } from './runner.js';

export interface Site {
  /** URL prefix to folder. */
  folders: Readonly<Record<string, string>>;
  /** In place of kSitePolicy. */
  content_security_policy?: string;
}

/** Our own, strict one; a page may have itself in a frame, where it opens anew. */
const kSitePolicy = kContentSecurityPolicy
  .replace("frame-ancestors 'none'", "frame-ancestors 'self'")
  .concat("; frame-src 'self'");

export class Chromium {
  readonly #profile: string;
  readonly #context: BrowserContext;
  readonly #servers: RunningServer[] = [];

  private constructor(profile: string, context: BrowserContext) {
    this.#profile = profile;
    this.#context = context;
  }

  static async open(flags: readonly string[]): Promise<Chromium> {
    const profile = makeProfile();
    try {
      return new Chromium(profile, await launchChromium(profile, flags));
    } catch (thrown) {
      removeProfile(profile);
      throw thrown;
    }
  }

  /** Serves a site and gives its URL. */
  async serve(site: Site): Promise<string> {
    const policy = { content_security_policy: kSitePolicy };
    const server = await startServer({ port: 0, files: {}, ...policy, ...site });
    this.#servers.push(server);
    return server.url;
  }

  async version(): Promise<string> {
    const page = await this.#context.newPage();
    const session = await this.#context.newCDPSession(page);
    const { product } = await session.send('Browser.getVersion');
    await page.close();
    return product.replace(/^.*\//, '');
  }

  async start(url: string, setup: PageSetup): Promise<Runner> {
    const page = await this.#context.newPage();
    const runner = new PageRunner(page);
    try {
      await page.goto(url);
      runner.about = await runner.ask(page.evaluate((given) => benchStart(given), setup));
      return runner;
    } catch (thrown) {
      await runner.close();
      throw thrown;
    }
  }

  async close(): Promise<void> {
    await closeChromium(this.#context);
    for (const server of this.#servers) await server.close();
    removeProfile(this.#profile);
  }
}

class PageRunner implements Runner {
  about: About = {};
  readonly #page: Page;
  readonly #gone: Promise<never>;

  constructor(page: Page) {
    this.#page = page;
    this.#gone = new Promise((_, reject) => {
      const fail = (what: string) => reject(new EngineError('backend_failed', what));
      page.on('crash', () => fail('The page of Chromium crashed.'));
      page.on('close', () => fail('The page of Chromium was closed.'));
    });
    this.#gone.catch(() => {});
  }

  async ask<T>(reply: Promise<PageReply<T>>): Promise<T> {
    const answer = await Promise.race([reply, this.#gone]);
    if ('error' in answer) throw new EngineError('internal', answer.error);
    return answer.value;
  }

  async run(one: Case): Promise<Sample> {
    // Chromium gives pages in the background less of a busy processor.
    await this.#page.bringToFront();
    return this.ask(this.#page.evaluate((data) => benchRun(data), one));
  }

  async close(): Promise<void> {
    await this.#page.close().catch(() => {});
  }
}
