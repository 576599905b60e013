// Verifies requests with vendors' own libraries. Reads lines of {vendor, secret, headers, body}, answers true or false.
import { createInterface } from "node:readline";
import { verify } from "@octokit/webhooks-methods";
import "@shopify/shopify-api/adapters/node";
import { ApiVersion, shopifyApi } from "@shopify/shopify-api";
import { Webhook } from "standardwebhooks";

const verifiers = {
  github: ({ secret, headers, body }) => verify(secret, body, headers["x-hub-signature-256"]),
  shopify: async ({ secret, headers, body }) => {
    const shopify = shopifyApi({
      apiKey: "key",
      apiSecretKey: secret,
      apiVersion: ApiVersion.July25,
      hostName: "receiver.test",
      isEmbeddedApp: false,
      logger: { level: 0 },
    });
    const rawRequest = { method: "POST", url: "/", headers };
    const found = await shopify.webhooks.validate({ rawBody: body, rawRequest, rawResponse: {} });
    return found.valid;
  },
  standard: async ({ secret, headers, body }) => {
    try {
      new Webhook(secret).verify(body, headers);
      return true;
    } catch {
      return false;
    }
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const given = JSON.parse(line);
  console.log(JSON.stringify(await verifiers[given.vendor](given)));
}
