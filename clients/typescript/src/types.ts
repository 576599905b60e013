/** What the platform takes and answers, from its OpenAPI document. Fields that a newer platform adds are there as well. */
import type { components, operations } from './schema.js';

type Schemas = components['schemas'];
type Query<Name extends keyof operations> = NonNullable<operations[Name]['parameters']['query']>;

export type Event = Schemas['Event'];
export type FeedEvent = Schemas['FeedEvent'];
export type Consumer = Schemas['Consumer'];
export type Endpoint = Schemas['Endpoint'];
/** With its `secret`, which is shown this once. */
export type CreatedEndpoint = Schemas['NewEndpoint'];
export type EventType = Schemas['EventType'];
export type Delivery = Schemas['Delivery'];
export type DeliveryDetail = Schemas['DeliveryDetail'];
export type Replay = Schemas['Replay'];
export type ReplayDetail = Schemas['ReplayDetail'];
export type ReplayPreview = Schemas['Preview'];
export type RotatedSecret = Schemas['RotatedSecret'];
export type CheckUp = Schemas['CheckUp'];
export type Trial = Schemas['Trial'];
export type Problem = Schemas['Problem'];
export type BatchResult = Schemas['BatchResult'];

export type NewEvent = Schemas['EventRequest'];
export type NewConsumer = Schemas['ConsumerRequest'];
export type ConsumerChange = Schemas['ConsumerChangeRequest'];
export type NewEndpoint = Schemas['NewEndpointRequest'];
export type EndpointChange = Schemas['EndpointChangeRequest'];
export type NewEventType = Schemas['NewEventTypeRequest'];
export type EventTypeChange = Schemas['EventTypeChangeRequest'];
export type NewReplay = Schemas['ReplayRequest'];
export type Rotation = Schemas['RotateRequest'];
export type TestEvent = Schemas['TestRequest'];

export type EventFilter = Query<'list_events'>;
export type DeliveryFilter = Query<'list_deliveries'>;
export type EventTypeFilter = Query<'list_event_types'>;
export type PageOptions = Query<'list_consumers'>;
export type FeedOptions = Query<'read_feed'>;
