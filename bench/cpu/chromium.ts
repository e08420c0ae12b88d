// Subjects that run in pages of one Chromium: each has a page of its own, on a server of ours.
import type { BrowserContext, Page } from 'playwright-core';
import {
  closeChromium,
  launchChromium,
  makeProfile,
  removeProfile,
} from '../../apps/cli/src/hosts.js';
import { startServer, type RunningServer } from '../../apps/cli/src/server.js';
import { EngineError } from '../../web/src/api/index.js';
import type { Case, Sample } from './cases.js';
import type { PageReply, PageSetup } from './page_globals.js';
import type { Runner } from './runner.js';

export interface Site {
  /** URL prefix to folder. */
  folders: Readonly<Record<string, string>>;
  /** In place of our own, strict one. */
  content_security_policy?: string;
}

export class Chromium {
  readonly #profile: string;
  readonly #context: BrowserContext;
  readonly #servers: RunningServer[] = [];

  private constructor(profile: string, context: BrowserContext) {
    this.#profile = profile;
    this.#context = context;
  }

  static async open(): Promise<Chromium> {
    const profile = makeProfile();
    try {
      return new Chromium(profile, await launchChromium(profile));
    } catch (thrown) {
      removeProfile(profile);
      throw thrown;
    }
  }

  /** Serves a site and gives its URL. */
  async serve(site: Site): Promise<string> {
    const server = await startServer({ port: 0, files: {}, ...site });
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
      await runner.ask(page.evaluate((given) => benchStart(given), setup));
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

  async ask(reply: Promise<PageReply>): Promise<Sample> {
    const answer = await Promise.race([reply, this.#gone]);
    if ('error' in answer) throw new EngineError('internal', answer.error);
    return answer.sample;
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
